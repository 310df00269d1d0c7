//! The data path: workers, listeners, sessions, streams, server connections
