//! The stick table family: an entry of a table, looked up by the input as its key. Registered so that configurations are
//! understood; the tables themselves come with the data path.

const LATER: &str = "stick tables";

converters! {
    "in_table" (Table) Any -> Bool, later LATER => "Whether the table has an entry for the key.";
    "table_bytes_in_rate" (Table) Any -> Sint, later LATER => "The key's rate of bytes from clients.";
    "table_bytes_out_rate" (Table) Any -> Sint, later LATER => "The key's rate of bytes to clients.";
    "table_clr_gpc" (Sint, Table) Any -> Sint, later LATER => "Clears one of the key's general purpose counters and gives what it was.";
    "table_clr_gpc0" (Table) Any -> Sint, later LATER => "Clears the key's first general purpose counter and gives what it was.";
    "table_clr_gpc1" (Table) Any -> Sint, later LATER => "Clears the key's second general purpose counter and gives what it was.";
    "table_conn_cnt" (Table) Any -> Sint, later LATER => "The key's count of connections.";
    "table_conn_cur" (Table) Any -> Sint, later LATER => "The key's connections that are open.";
    "table_conn_rate" (Table) Any -> Sint, later LATER => "The key's rate of connections.";
    "table_expire" (Table; Sint) Any -> Sint, later LATER => "How long the key's entry lasts, in milliseconds.";
    "table_glitch_cnt" (Table) Any -> Sint, later LATER => "The key's count of glitches.";
    "table_glitch_rate" (Table) Any -> Sint, later LATER => "The key's rate of glitches.";
    "table_gpc" (Sint, Table) Any -> Sint, later LATER => "One of the key's general purpose counters.";
    "table_gpc0" (Table) Any -> Sint, later LATER => "The key's first general purpose counter.";
    "table_gpc0_rate" (Table) Any -> Sint, later LATER => "The rate of the key's first general purpose counter.";
    "table_gpc1" (Table) Any -> Sint, later LATER => "The key's second general purpose counter.";
    "table_gpc1_rate" (Table) Any -> Sint, later LATER => "The rate of the key's second general purpose counter.";
    "table_gpc_rate" (Sint, Table) Any -> Sint, later LATER => "The rate of one of the key's general purpose counters.";
    "table_gpt" (Sint, Table) Any -> Sint, later LATER => "One of the key's general purpose tags.";
    "table_gpt0" (Table) Any -> Sint, later LATER => "The key's first general purpose tag.";
    "table_http_err_cnt" (Table) Any -> Sint, later LATER => "The key's count of HTTP errors.";
    "table_http_err_rate" (Table) Any -> Sint, later LATER => "The key's rate of HTTP errors.";
    "table_http_fail_cnt" (Table) Any -> Sint, later LATER => "The key's count of HTTP failures.";
    "table_http_fail_rate" (Table) Any -> Sint, later LATER => "The key's rate of HTTP failures.";
    "table_http_req_cnt" (Table) Any -> Sint, later LATER => "The key's count of HTTP requests.";
    "table_http_req_rate" (Table) Any -> Sint, later LATER => "The key's rate of HTTP requests.";
    "table_idle" (Table; Sint) Any -> Sint, later LATER => "How long ago the key's entry was touched, in milliseconds.";
    "table_inc_gpc" (Sint, Table) Any -> Sint, later LATER => "Increments one of the key's general purpose counters and gives what it is.";
    "table_inc_gpc0" (Table) Any -> Sint, later LATER => "Increments the key's first general purpose counter and gives what it is.";
    "table_inc_gpc1" (Table) Any -> Sint, later LATER => "Increments the key's second general purpose counter and gives what it is.";
    "table_kbytes_in" (Table) Any -> Sint, later LATER => "The key's kilobytes from clients.";
    "table_kbytes_out" (Table) Any -> Sint, later LATER => "The key's kilobytes to clients.";
    "table_server_id" (Table) Any -> Sint, later LATER => "The number of the server the key sticks to.";
    "table_sess_cnt" (Table) Any -> Sint, later LATER => "The key's count of sessions.";
    "table_sess_rate" (Table) Any -> Sint, later LATER => "The key's rate of sessions.";
    "table_trackers" (Table) Any -> Sint, later LATER => "How many connections track the key.";
}
