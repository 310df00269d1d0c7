//! The HTTP message model and the HTTP/1 codec: bytes in, messages and framing out.
//!
//! Owns what a head is (`Request`, `Response`, `Headers`), how it is read and written in HTTP/1
//! (`parse_request`, `parse_response`, `write_to`), how long a body is and where it ends
//! (`Framing`, `BodyDecoder`), the standard error pages, and the pieces of URI and cookie
//! syntax that rules and sample fetches need.
//!
//! Leaves out: sockets, clocks, connection reuse, rules. Nothing here allocates per header and
//! nothing here can panic on what a peer sends.
//!
//! A head's way: the shell reads into a buffer, calls `parse_request` each time bytes arrive until
//! it says `Complete`, lets rules change the message, calls `write_to` towards the server, then
//! gives what follows to a `BodyDecoder` made from `Request::framing`.

mod authority;
mod body;
mod chars;
mod chunk;
pub mod default_errors;
mod error;
mod fields;
mod framing;
mod head;
mod headers;
mod lists;
mod message;
mod method;
pub mod normalize;
mod response;
mod scan;
mod start_line;
mod status;
pub mod uri;

pub use body::{BodyDecoder, BodyError, BodyPart, BodyStep, parse_trailers};
pub use chars::is_token;
pub use chunk::{CHUNK_EXTENSION_MAX, ChunkWriter, LAST_CHUNK, TRAILERS_MAX, encode_chunk};
pub use error::{ErrorKind, ParseError};
pub use framing::Framing;
pub use head::{is_http2_preface, parse_request, parse_response};
pub use headers::{HeaderLine, Headers, Named, Slot};
pub use lists::{Cookies, ListItems, cookies, cookies_of, list_items, set_cookie};
pub use message::{Noticed, Request};
pub use method::{Method, Version};
pub use response::Response;
pub use scan::{HeadScan, Limits, Parsed};
pub use status::reason;
