// The layout library in a worker, so that the page never waits for it.

const limits = { layout: 20_000 }; // milliseconds; what takes longer is shown without edges

class Engine {
  constructor(url) {
    this.url = url;
    this.begin();
  }

  static async start() {
    // null where the page has no library, or the browser cannot run it.
    const packed = $("#library").content.textContent.trim();
    if (!packed) return null;
    try {
      const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      // In a worker, the library answers messages itself; its bundle does so when it is first used.
      const begin = "\n;if (!self.onmessage) try { new ELK(); } catch {}";
      const url = URL.createObjectURL(new Blob([await new Response(stream).blob(), begin], { type: "text/javascript" }));
      const engine = new Engine(url);
      await engine.layout({ id: "all", children: [], edges: [] });
      return engine;
    } catch {
      return null;
    }
  }

  begin() {
    this.worker = new Worker(this.url);
    this.worker.postMessage({ id: -1, cmd: "register", algorithms: ["layered"] });
    this.waiting = new Map(); // number of a question -> what to do with its answer
    this.asked = 0;
    this.worker.onmessage = ({ data: { id, data, error } }) => {
      const { resolve, reject } = this.waiting.get(id) ?? {};
      this.waiting.delete(id);
      if (error) reject?.(new Error("the library found no layout"));
      else resolve?.(data);
    };
    this.worker.onerror = () => this.stop("the library failed");
  }

  stop(reason) {
    // Give up what is under way, and be ready again.
    this.worker.terminate();
    const { waiting } = this;
    this.begin();
    for (const { reject } of waiting.values()) reject(new Error(reason));
  }

  layout(graph) {
    const id = this.asked++;
    this.worker.postMessage({ id, cmd: "layout", graph, layoutOptions: {}, options: {} });
    const limit = setTimeout(() => this.waiting.has(id) && this.stop("the time limit is exceeded"), limits.layout);
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject })).finally(() => clearTimeout(limit));
  }
}
