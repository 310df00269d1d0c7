//! Patterns and maps: match methods, the indexed stores, and the shared, versioned lists behind files.
