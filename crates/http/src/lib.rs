//! HTTP message model and the HTTP/1 codec: bytes in, events out, no I/O
