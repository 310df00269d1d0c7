//! Fetches the language knows and a later part of Sluice brings, so that a configuration that uses one is told what is
//! missing, and lists of what is known are complete.

/// Writes a table of fetches that need one part of Sluice.
macro_rules! later {
    ($table:ident, $part:literal: $($name:literal ($($req:ident),* $(; $($opt:ident),+)?) -> $out:ident, $place:ident;)*) => {
        pub(super) const $table: &[$crate::fetch::FetchDef] = &[$($crate::fetch::FetchDef {
            name: $name,
            args: $crate::args::ArgSpec {
                kinds: &[$($crate::args::ArgKind::$req,)* $($($crate::args::ArgKind::$opt,)+)?],
                required: <[&str]>::len(&[$(stringify!($req)),*]),
            },
            out: $crate::value::Type::$out,
            places: $crate::place::Place::$place,
            help: concat!("Comes with ", $part, "."),
            run: $crate::fetch::Run::Later($part),
            prepare: None,
        }),*];
    };
}

later! { COMPRESSION, "compression":
    "res.comp" () -> Bool, RESPONSE_KEPT;
    "res.comp_algo" () -> Str, RESPONSE_KEPT;
}

later! { FASTCGI, "FastCGI":
    "fcgi.docroot" () -> Str, REQUEST;
    "fcgi.index" () -> Str, REQUEST;
}

later! { MULTIPLEXED_PROTOCOLS, "multiplexed protocols":
    "bs.aborted" () -> Sint, RESPONSE_KEPT;
    "bs.debug_str" (; Sint) -> Str, RESPONSE_KEPT;
    "bs.id" () -> Sint, RESPONSE_KEPT;
    "bs.rst_code" () -> Sint, RESPONSE_KEPT;
    "fs.aborted" () -> Sint, SESSION;
    "fs.debug_str" (; Sint) -> Str, SESSION;
    "fs.id" () -> Str, SESSION;
    "fs.rst_code" () -> Sint, SESSION;
}

later! { QUIC, "QUIC":
    "quic_enabled" () -> Bool, ANYWHERE;
}

later! { SPOE, "SPOE":
    "spoe.engine-id" () -> Str, PROCESS;
}

later! { STICK_TABLES, "stick tables":
    "sc0_bytes_in_rate" (; Table) -> Sint, PROCESS;
    "sc0_bytes_out_rate" (; Table) -> Sint, PROCESS;
    "sc0_clr_gpc0" (; Table) -> Sint, PROCESS;
    "sc0_clr_gpc1" (; Table) -> Sint, PROCESS;
    "sc0_conn_cnt" (; Table) -> Sint, PROCESS;
    "sc0_conn_cur" (; Table) -> Sint, PROCESS;
    "sc0_conn_rate" (; Table) -> Sint, PROCESS;
    "sc0_get_gpc0" (; Table) -> Sint, PROCESS;
    "sc0_get_gpc1" (; Table) -> Sint, PROCESS;
    "sc0_get_gpt0" (; Table) -> Sint, PROCESS;
    "sc0_glitch_cnt" (; Table) -> Sint, PROCESS;
    "sc0_glitch_rate" (; Table) -> Sint, PROCESS;
    "sc0_gpc0_rate" (; Table) -> Sint, PROCESS;
    "sc0_gpc1_rate" (; Table) -> Sint, PROCESS;
    "sc0_http_err_cnt" (; Table) -> Sint, PROCESS;
    "sc0_http_err_rate" (; Table) -> Sint, PROCESS;
    "sc0_http_fail_cnt" (; Table) -> Sint, PROCESS;
    "sc0_http_fail_rate" (; Table) -> Sint, PROCESS;
    "sc0_http_req_cnt" (; Table) -> Sint, PROCESS;
    "sc0_http_req_rate" (; Table) -> Sint, PROCESS;
    "sc0_inc_gpc0" (; Table) -> Sint, PROCESS;
    "sc0_inc_gpc1" (; Table) -> Sint, PROCESS;
    "sc0_kbytes_in" (; Table) -> Sint, CLIENT;
    "sc0_kbytes_out" (; Table) -> Sint, CLIENT;
    "sc0_key" () -> Any, PROCESS;
    "sc0_sess_cnt" (; Table) -> Sint, PROCESS;
    "sc0_sess_rate" (; Table) -> Sint, PROCESS;
    "sc0_tracked" (; Table) -> Bool, PROCESS;
    "sc0_trackers" (; Table) -> Sint, PROCESS;
    "sc1_bytes_in_rate" (; Table) -> Sint, PROCESS;
    "sc1_bytes_out_rate" (; Table) -> Sint, PROCESS;
    "sc1_clr_gpc" (Sint; Table) -> Sint, PROCESS;
    "sc1_clr_gpc0" (; Table) -> Sint, PROCESS;
    "sc1_clr_gpc1" (; Table) -> Sint, PROCESS;
    "sc1_conn_cnt" (; Table) -> Sint, PROCESS;
    "sc1_conn_cur" (; Table) -> Sint, PROCESS;
    "sc1_conn_rate" (; Table) -> Sint, PROCESS;
    "sc1_get_gpc0" (; Table) -> Sint, PROCESS;
    "sc1_get_gpc1" (; Table) -> Sint, PROCESS;
    "sc1_get_gpt0" (; Table) -> Sint, PROCESS;
    "sc1_glitch_cnt" (; Table) -> Sint, PROCESS;
    "sc1_glitch_rate" (; Table) -> Sint, PROCESS;
    "sc1_gpc0_rate" (; Table) -> Sint, PROCESS;
    "sc1_gpc1_rate" (; Table) -> Sint, PROCESS;
    "sc1_http_err_cnt" (; Table) -> Sint, PROCESS;
    "sc1_http_err_rate" (; Table) -> Sint, PROCESS;
    "sc1_http_fail_cnt" (; Table) -> Sint, PROCESS;
    "sc1_http_fail_rate" (; Table) -> Sint, PROCESS;
    "sc1_http_req_cnt" (; Table) -> Sint, PROCESS;
    "sc1_http_req_rate" (; Table) -> Sint, PROCESS;
    "sc1_inc_gpc0" (; Table) -> Sint, PROCESS;
    "sc1_inc_gpc1" (; Table) -> Sint, PROCESS;
    "sc1_kbytes_in" (; Table) -> Sint, CLIENT;
    "sc1_kbytes_out" (; Table) -> Sint, CLIENT;
    "sc1_key" () -> Any, PROCESS;
    "sc1_sess_cnt" (; Table) -> Sint, PROCESS;
    "sc1_sess_rate" (; Table) -> Sint, PROCESS;
    "sc1_tracked" (; Table) -> Bool, PROCESS;
    "sc1_trackers" (; Table) -> Sint, PROCESS;
    "sc2_bytes_in_rate" (; Table) -> Sint, PROCESS;
    "sc2_bytes_out_rate" (; Table) -> Sint, PROCESS;
    "sc2_clr_gpc0" (; Table) -> Sint, PROCESS;
    "sc2_clr_gpc1" (; Table) -> Sint, PROCESS;
    "sc2_conn_cnt" (; Table) -> Sint, PROCESS;
    "sc2_conn_cur" (; Table) -> Sint, PROCESS;
    "sc2_conn_rate" (; Table) -> Sint, PROCESS;
    "sc2_get_gpc0" (; Table) -> Sint, PROCESS;
    "sc2_get_gpc1" (; Table) -> Sint, PROCESS;
    "sc2_get_gpt0" (; Table) -> Sint, PROCESS;
    "sc2_glitch_cnt" (; Table) -> Sint, PROCESS;
    "sc2_glitch_rate" (; Table) -> Sint, PROCESS;
    "sc2_gpc0_rate" (; Table) -> Sint, PROCESS;
    "sc2_gpc1_rate" (; Table) -> Sint, PROCESS;
    "sc2_http_err_cnt" (; Table) -> Sint, PROCESS;
    "sc2_http_err_rate" (; Table) -> Sint, PROCESS;
    "sc2_http_fail_cnt" (; Table) -> Sint, PROCESS;
    "sc2_http_fail_rate" (; Table) -> Sint, PROCESS;
    "sc2_http_req_cnt" (; Table) -> Sint, PROCESS;
    "sc2_http_req_rate" (; Table) -> Sint, PROCESS;
    "sc2_inc_gpc0" (; Table) -> Sint, PROCESS;
    "sc2_inc_gpc1" (; Table) -> Sint, PROCESS;
    "sc2_kbytes_in" (; Table) -> Sint, CLIENT;
    "sc2_kbytes_out" (; Table) -> Sint, CLIENT;
    "sc2_key" () -> Any, PROCESS;
    "sc2_sess_cnt" (; Table) -> Sint, PROCESS;
    "sc2_sess_rate" (; Table) -> Sint, PROCESS;
    "sc2_tracked" (; Table) -> Bool, PROCESS;
    "sc2_trackers" (; Table) -> Sint, PROCESS;
    "sc_bytes_in_rate" (Sint; Table) -> Sint, PROCESS;
    "sc_bytes_out_rate" (Sint; Table) -> Sint, PROCESS;
    "sc_clr_gpc" (Sint, Sint; Table) -> Sint, PROCESS;
    "sc_clr_gpc0" (Sint; Table) -> Sint, PROCESS;
    "sc_clr_gpc1" (Sint; Table) -> Sint, PROCESS;
    "sc_conn_cnt" (Sint; Table) -> Sint, PROCESS;
    "sc_conn_cur" (Sint; Table) -> Sint, PROCESS;
    "sc_conn_rate" (Sint; Table) -> Sint, PROCESS;
    "sc_get_gpc" (Sint, Sint; Table) -> Sint, PROCESS;
    "sc_get_gpc0" (Sint; Table) -> Sint, PROCESS;
    "sc_get_gpc1" (Sint; Table) -> Sint, PROCESS;
    "sc_get_gpt" (Sint, Sint; Table) -> Sint, PROCESS;
    "sc_get_gpt0" (Sint; Table) -> Sint, PROCESS;
    "sc_glitch_cnt" (Sint; Table) -> Sint, PROCESS;
    "sc_glitch_rate" (Sint; Table) -> Sint, PROCESS;
    "sc_gpc0_rate" (Sint; Table) -> Sint, PROCESS;
    "sc_gpc1_rate" (Sint; Table) -> Sint, PROCESS;
    "sc_gpc_rate" (Sint, Sint; Table) -> Sint, PROCESS;
    "sc_http_err_cnt" (Sint; Table) -> Sint, PROCESS;
    "sc_http_err_rate" (Sint; Table) -> Sint, PROCESS;
    "sc_http_fail_cnt" (Sint; Table) -> Sint, PROCESS;
    "sc_http_fail_rate" (Sint; Table) -> Sint, PROCESS;
    "sc_http_req_cnt" (Sint; Table) -> Sint, PROCESS;
    "sc_http_req_rate" (Sint; Table) -> Sint, PROCESS;
    "sc_inc_gpc" (Sint, Sint; Table) -> Sint, PROCESS;
    "sc_inc_gpc0" (Sint; Table) -> Sint, PROCESS;
    "sc_inc_gpc1" (Sint; Table) -> Sint, PROCESS;
    "sc_kbytes_in" (Sint; Table) -> Sint, CLIENT;
    "sc_kbytes_out" (Sint; Table) -> Sint, CLIENT;
    "sc_key" (Sint) -> Any, PROCESS;
    "sc_sess_cnt" (Sint; Table) -> Sint, PROCESS;
    "sc_sess_rate" (Sint; Table) -> Sint, PROCESS;
    "sc_tracked" (Sint; Table) -> Bool, PROCESS;
    "sc_trackers" (Sint; Table) -> Sint, PROCESS;
    "src_bytes_in_rate" (Table) -> Sint, CLIENT;
    "src_bytes_out_rate" (Table) -> Sint, CLIENT;
    "src_clr_gpc" (Sint, Table) -> Sint, CLIENT;
    "src_clr_gpc0" (Table) -> Sint, CLIENT;
    "src_clr_gpc1" (Table) -> Sint, CLIENT;
    "src_conn_cnt" (Table) -> Sint, CLIENT;
    "src_conn_cur" (Table) -> Sint, CLIENT;
    "src_conn_rate" (Table) -> Sint, CLIENT;
    "src_get_gpc" (Sint, Table) -> Sint, CLIENT;
    "src_get_gpc0" (Table) -> Sint, CLIENT;
    "src_get_gpc1" (Table) -> Sint, CLIENT;
    "src_get_gpt" (Sint, Table) -> Sint, CLIENT;
    "src_get_gpt0" (Table) -> Sint, CLIENT;
    "src_glitch_cnt" (Table) -> Sint, CLIENT;
    "src_glitch_rate" (Table) -> Sint, CLIENT;
    "src_gpc0_rate" (Table) -> Sint, CLIENT;
    "src_gpc1_rate" (Table) -> Sint, CLIENT;
    "src_gpc_rate" (Sint, Table) -> Sint, CLIENT;
    "src_http_err_cnt" (Table) -> Sint, CLIENT;
    "src_http_err_rate" (Table) -> Sint, CLIENT;
    "src_http_fail_cnt" (Table) -> Sint, CLIENT;
    "src_http_fail_rate" (Table) -> Sint, CLIENT;
    "src_http_req_cnt" (Table) -> Sint, CLIENT;
    "src_http_req_rate" (Table) -> Sint, CLIENT;
    "src_inc_gpc" (Sint, Table) -> Sint, CLIENT;
    "src_inc_gpc0" (Table) -> Sint, CLIENT;
    "src_inc_gpc1" (Table) -> Sint, CLIENT;
    "src_kbytes_in" (Table) -> Sint, CLIENT;
    "src_kbytes_out" (Table) -> Sint, CLIENT;
    "src_sess_cnt" (Table) -> Sint, CLIENT;
    "src_sess_rate" (Table) -> Sint, CLIENT;
    "src_updt_conn_cnt" (Table) -> Sint, CLIENT;
    "table_avl" (Table) -> Sint, PROCESS;
    "table_cnt" (Table) -> Sint, PROCESS;
}

later! { THE_CACHE, "the cache":
    "res.cache_hit" () -> Bool, SERVER;
    "res.cache_name" () -> Str, SERVER;
}

later! { TLS, "TLS":
    "ssl_bc_alg_keysize" () -> Sint, RESPONSE_KEPT;
    "ssl_bc_alpn" () -> Str, RESPONSE_KEPT;
    "ssl_bc_cipher" () -> Str, RESPONSE_KEPT;
    "ssl_bc_client_early_traffic_secret" () -> Str, SESSION;
    "ssl_bc_client_handshake_traffic_secret" () -> Str, SESSION;
    "ssl_bc_client_random" () -> Bin, RESPONSE_KEPT;
    "ssl_bc_client_traffic_secret_0" () -> Str, SESSION;
    "ssl_bc_curve" () -> Str, RESPONSE_KEPT;
    "ssl_bc_early_exporter_secret" () -> Str, SESSION;
    "ssl_bc_err" () -> Sint, RESPONSE_KEPT;
    "ssl_bc_err_str" () -> Str, RESPONSE_KEPT;
    "ssl_bc_exporter_secret" () -> Str, SESSION;
    "ssl_bc_is_resumed" () -> Bool, RESPONSE_KEPT;
    "ssl_bc_npn" () -> Str, RESPONSE_KEPT;
    "ssl_bc_protocol" () -> Str, RESPONSE_KEPT;
    "ssl_bc_server_handshake_traffic_secret" () -> Str, SESSION;
    "ssl_bc_server_random" () -> Bin, RESPONSE_KEPT;
    "ssl_bc_server_traffic_secret_0" () -> Str, SESSION;
    "ssl_bc_session_id" () -> Bin, RESPONSE_KEPT;
    "ssl_bc_session_key" () -> Bin, RESPONSE_KEPT;
    "ssl_bc_sni" () -> Str, RESPONSE_KEPT;
    "ssl_bc_unique_id" () -> Bin, RESPONSE_KEPT;
    "ssl_bc_use_keysize" () -> Sint, RESPONSE_KEPT;
    "ssl_c_ca_err" () -> Sint, SESSION;
    "ssl_c_ca_err_depth" () -> Sint, SESSION;
    "ssl_c_chain_der" () -> Bin, SESSION;
    "ssl_c_der" () -> Bin, SESSION;
    "ssl_c_err" () -> Sint, SESSION;
    "ssl_c_i_dn" (; Str, Sint, Str) -> Str, SESSION;
    "ssl_c_key_alg" () -> Str, SESSION;
    "ssl_c_notafter" () -> Str, SESSION;
    "ssl_c_notbefore" () -> Str, SESSION;
    "ssl_c_policies" (; Str) -> Str, SESSION;
    "ssl_c_r_dn" (; Str, Sint, Str) -> Str, SESSION;
    "ssl_c_s_dn" (; Str, Sint, Str) -> Str, SESSION;
    "ssl_c_san" () -> Str, SESSION;
    "ssl_c_serial" () -> Bin, SESSION;
    "ssl_c_sha1" () -> Bin, SESSION;
    "ssl_c_sig_alg" () -> Str, SESSION;
    "ssl_c_used" () -> Bool, SESSION;
    "ssl_c_verify" () -> Sint, SESSION;
    "ssl_c_version" () -> Sint, SESSION;
    "ssl_f_der" () -> Bin, SESSION;
    "ssl_f_i_dn" (; Str, Sint, Str) -> Str, SESSION;
    "ssl_f_key_alg" () -> Str, SESSION;
    "ssl_f_notafter" () -> Str, SESSION;
    "ssl_f_notbefore" () -> Str, SESSION;
    "ssl_f_s_dn" (; Str, Sint, Str) -> Str, SESSION;
    "ssl_f_serial" () -> Bin, SESSION;
    "ssl_f_sha1" () -> Bin, SESSION;
    "ssl_f_sig_alg" () -> Str, SESSION;
    "ssl_f_version" () -> Sint, SESSION;
    "ssl_fc_alg_keysize" () -> Sint, SESSION;
    "ssl_fc_alpn" () -> Str, SESSION;
    "ssl_fc_cipher" () -> Str, SESSION;
    "ssl_fc_cipherlist_bin" (; Sint) -> Str, SESSION;
    "ssl_fc_cipherlist_hex" (; Sint) -> Bin, SESSION;
    "ssl_fc_cipherlist_str" (; Sint) -> Str, SESSION;
    "ssl_fc_cipherlist_xxh" () -> Sint, SESSION;
    "ssl_fc_client_early_traffic_secret" () -> Str, SESSION;
    "ssl_fc_client_handshake_traffic_secret" () -> Str, SESSION;
    "ssl_fc_client_random" () -> Bin, SESSION;
    "ssl_fc_client_traffic_secret_0" () -> Str, SESSION;
    "ssl_fc_crtname" () -> Str, SESSION;
    "ssl_fc_curve" () -> Str, SESSION;
    "ssl_fc_early_exporter_secret" () -> Str, SESSION;
    "ssl_fc_early_rcvd" () -> Bool, SESSION;
    "ssl_fc_ecformats_bin" () -> Str, SESSION;
    "ssl_fc_eclist_bin" (; Sint) -> Str, SESSION;
    "ssl_fc_err" () -> Sint, SESSION;
    "ssl_fc_err_str" () -> Str, SESSION;
    "ssl_fc_exporter_secret" () -> Str, SESSION;
    "ssl_fc_extlist_bin" (; Sint) -> Str, SESSION;
    "ssl_fc_has_crt" () -> Bool, SESSION;
    "ssl_fc_has_early" () -> Bool, SESSION;
    "ssl_fc_has_sni" () -> Bool, SESSION;
    "ssl_fc_is_resumed" () -> Bool, SESSION;
    "ssl_fc_npn" () -> Str, SESSION;
    "ssl_fc_protocol" () -> Str, SESSION;
    "ssl_fc_protocol_hello_id" () -> Sint, SESSION;
    "ssl_fc_server_handshake_traffic_secret" () -> Str, SESSION;
    "ssl_fc_server_random" () -> Bin, SESSION;
    "ssl_fc_server_traffic_secret_0" () -> Str, SESSION;
    "ssl_fc_session_id" () -> Bin, SESSION;
    "ssl_fc_session_key" () -> Bin, SESSION;
    "ssl_fc_sigalgs_bin" (; Sint) -> Bin, SESSION;
    "ssl_fc_sni" () -> Str, SESSION;
    "ssl_fc_supported_versions_bin" (; Sint) -> Bin, SESSION;
    "ssl_fc_unique_id" () -> Bin, SESSION;
    "ssl_fc_use_keysize" () -> Sint, SESSION;
    "ssl_s_chain_der" () -> Bin, SESSION;
    "ssl_s_der" () -> Bin, SESSION;
    "ssl_s_i_dn" (; Str, Sint, Str) -> Str, SESSION;
    "ssl_s_key_alg" () -> Str, SESSION;
    "ssl_s_notafter" () -> Str, SESSION;
    "ssl_s_notbefore" () -> Str, SESSION;
    "ssl_s_s_dn" (; Str, Sint, Str) -> Str, SESSION;
    "ssl_s_serial" () -> Bin, SESSION;
    "ssl_s_sha1" () -> Bin, SESSION;
    "ssl_s_sig_alg" () -> Str, SESSION;
    "ssl_s_version" () -> Sint, SESSION;
}

/// All of them, one table a part.
pub(super) const TABLES: &[&[super::FetchDef]] = &[
    COMPRESSION,
    FASTCGI,
    MULTIPLEXED_PROTOCOLS,
    QUIC,
    SPOE,
    STICK_TABLES,
    THE_CACHE,
    TLS,
];
