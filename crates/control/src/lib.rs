//! Views of the running process: stats page, CSV, Prometheus, runtime commands
