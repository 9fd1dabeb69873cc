"""Inference server: models behind HTTP by the open inference protocol v2 of KServe and Triton.

    protocol   requests and responses as bytes and arrays; pure functions
    models     model files, their versions, signatures and compiled batch sizes
    batching   requests joined along the batch axis into few sizes
    page       HTML page to try a model by hand
    http       application, limits, access, metrics
    server     a socket, uvicorn, start and shutdown

The guide is docs/guides/serving.md.
"""
