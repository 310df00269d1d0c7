//! Load generator, origin server and the published experiments
