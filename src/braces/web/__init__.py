"""Parts of pages and of HTTP servers: sockets, uvicorn's settings, scripts and their policy."""
