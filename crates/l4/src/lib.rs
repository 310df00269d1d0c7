//! The packet director: virtual servers, direct routing and VRRP on XDP
