"use strict";
// A canvas to draw on; its values are the means of squares of its pixels.

const CANVAS_SIDE = 320;

class Drawing {
  constructor(input) {
    this.input = input;
    this.picture = pictureOf(input);
    const { width, height } = this.picture;
    this.scale = Math.max(1, Math.round(CANVAS_SIDE / Math.max(width, height)));
    this.canvas = make("canvas", "paper");
    Object.assign(this.canvas, { width: width * this.scale, height: height * this.scale });
    this.canvas.setAttribute("aria-label", `Drawing for ${input.name}`);
    this.canvas.setAttribute("role", "img");
    this.pen = this.canvas.getContext("2d", { willReadFrequently: true });
    this.preview = Object.assign(make("canvas", "preview"), { width, height });
    this.problem = make("p", "problem");
    this.problem.hidden = true;
    this.element = make("div", "", this.board(), this.tools(), this.rangeTools(), this.problem);
    this.listen();
    this.clear();
  }

  board() {
    const { width, height } = this.picture;
    const figure = make("figure", "", this.preview, make("figcaption", "", `sent: ${width} × ${height}`));
    return make("div", "board", this.canvas, figure);
  }

  tools() {
    const { width, channels } = this.picture;
    const size = Math.max(1.2, width / 14);
    this.size = makeField("Pen ", "range", size, { min: size / 3, max: size * 3, step: "any", value: size });
    this.color = makeField("Color ", "color", "#ffffff");
    this.file = makeField("Open picture…", "file", "", { accept: "image/*" });
    this.file.label.className = "file";
    this.file.input.addEventListener("change", () => this.open(this.file.input.files[0]));
    const colors = channels === 3 ? [this.color.label] : [];
    return make("div", "tools", makeButton("Clear", () => this.clear()), this.file.label, this.size.label, ...colors);
  }

  rangeTools() {
    const [low, high] = this.input.range ?? WHOLE_RANGE[this.input.datatype] ?? [0, 1];
    this.low = makeField("Values: black ", "number", low, { step: "any" });
    this.high = makeField("white ", "number", high, { step: "any" });
    return make("div", "tools", this.low.label, this.high.label);
  }

  listen() {
    let last = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.canvas.setPointerCapture(event.pointerId);
      last = this.place(event);
      this.line(last, last);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (last === null) return;
      const moves = event.getCoalescedEvents?.() ?? [];
      for (const move of moves.length ? moves : [event]) {
        const next = this.place(move);
        this.line(last, next);
        last = next;
      }
    });
    for (const name of ["pointerup", "pointercancel"]) this.canvas.addEventListener(name, () => (last = null));
  }

  place(event) {
    const { left, top, width } = this.canvas.getBoundingClientRect();
    const zoom = this.canvas.width / width;
    return [(event.clientX - left) * zoom, (event.clientY - top) * zoom];
  }

  line([fromX, fromY], [toX, toY]) {
    const { pen } = this;
    Object.assign(pen, { lineCap: "round", lineJoin: "round", lineWidth: this.scale * Number(this.size.input.value) });
    pen.strokeStyle = this.color.input.value;
    pen.beginPath();
    pen.moveTo(fromX, fromY);
    pen.lineTo(toX, toY + 0.01);
    pen.stroke();
    this.show();
  }

  clear() {
    this.pen.fillStyle = "#000000";
    this.pen.fillRect(0, 0, this.canvas.width, this.canvas.height);
    showProblem(this.problem, "");
    this.show();
  }

  async open(file) {
    if (!file) return;
    this.file.input.value = "";
    try {
      const bitmap = await createImageBitmap(file);
      this.clear();
      const { width, height } = this.canvas;
      const zoom = Math.min(width / bitmap.width, height / bitmap.height);
      const [w, h] = [bitmap.width * zoom, bitmap.height * zoom];
      this.pen.drawImage(bitmap, (width - w) / 2, (height - h) / 2, w, h);
      this.show();
    } catch {
      showProblem(this.problem, "The file is not a picture that this browser reads.");
    }
  }

  pixels() {
    // Red, green and blue from 0 to 1 of each pixel of the input, row by row.
    const { scale, picture, canvas } = this;
    const { data } = this.pen.getImageData(0, 0, canvas.width, canvas.height);
    const sums = Array.from({ length: picture.width * picture.height }, () => [0, 0, 0]);
    for (let y = 0; y < canvas.height; y++) {
      for (let x = 0; x < canvas.width; x++) {
        const sum = sums[Math.floor(y / scale) * picture.width + Math.floor(x / scale)];
        const at = 4 * (y * canvas.width + x);
        for (let channel = 0; channel < 3; channel++) sum[channel] += data[at + channel];
      }
    }
    return sums.map((sum) => sum.map((value) => value / (255 * scale * scale)));
  }

  show() {
    // Draw the preview once before the next frame, however many lines were drawn.
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      const image = new ImageData(this.picture.width, this.picture.height);
      const grey = this.picture.channels === 1;
      this.pixels().forEach(([red, green, blue], i) => {
        const mean = 0.299 * red + 0.587 * green + 0.114 * blue;
        const color = grey ? [mean, mean, mean] : [red, green, blue];
        image.data.set([...color.map((value) => 255 * value), 255], 4 * i);
      });
      this.preview.getContext("2d").putImageData(image, 0, 0);
    });
  }

  read() {
    const [low, high] = [this.low, this.high].map(({ input }) => Number(input.value));
    const data = pictureValues(this.pixels(), this.picture, [low, high], this.input.datatype);
    return { shape: this.input.shape.map((size) => (size === -1 ? 1 : size)), data };
  }
}
