//! The formats that have a name, as texts of the language itself (manual chapters 8.2.1 to 8.2.5).

/// `option httplog`
pub const HTTPLOG: &str = "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r";

/// `option httplog clf`
pub const CLF: &str = "%{+Q}o %{-Q}ci - - [%trg] %r %ST %B \"\" \"\" %cp %ms %ft %b %s %TR %Tw %Tc %Tr %Ta %tsc %ac %fc %bc %sc %rc %sq %bq %CC %CS %hrl %hsl";

/// `option httpslog`
pub const HTTPSLOG: &str = "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r %[fc_err]/%[ssl_fc_err,hex]/%[ssl_c_err]/%[ssl_c_ca_err]/%[ssl_fc_is_resumed] %[ssl_fc_sni]/%sslv/%sslc";

/// `option tcplog`
pub const TCPLOG: &str = "%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq";

/// `option tcplog clf` (HAProxy 3.1)
pub const TCPLOG_CLF: &str = "%{+Q}o %{-Q}ci - - [%T] \"TCP \" %ST %B \"\" \"\" %cp %ms %ft %b %s %Th %Tw %Tc %Tt %U %ts-- %ac %fc %bc %sc %rc %sq %bq \"\" \"\" ";

/// No format at all, when a connection is accepted by a frontend in mode http.
pub const CONNECT_HTTP: &str = "Connect from %ci:%cp to %fi:%fp (%f/HTTP)";

/// The same in mode tcp.
pub const CONNECT_TCP: &str = "Connect from %ci:%cp to %fi:%fp (%f/TCP)";

/// What is logged of a connection that fails before it carries a stream, without `error-log-format`. The listener is
/// its name, or its number when it has none.
pub const ERROR: &str = "%ci:%cp [%t] %f/%[so_name]: %[fc_err_str]";
/// See [`ERROR`].
pub const ERROR_UNNAMED: &str = "%ci:%cp [%t] %f/%[so_id]: %[fc_err_str]";

/// `log-format json` in mode http: every field of [`HTTPLOG`] under the manual's name.
pub const HTTP_JSON: &str = "%{+json}o %(client_ip)ci %(client_port)cp %(request_date)tr %(frontend_name)ft %(backend_name)b %(server_name)s %(TR)TR %(Tw)Tw %(Tc)Tc %(Tr)Tr %(Ta)Ta %(status_code)ST %(bytes_read)B %(captured_request_cookie)CC %(captured_response_cookie)CS %(termination_state)tsc %(actconn)ac %(feconn)fc %(beconn)bc %(srv_conn)sc %(retries)rc %(srv_queue)sq %(backend_queue)bq %(captured_request_headers)hrl %(captured_response_headers)hsl %(http_request)r";

/// `log-format json` in mode tcp: every field of [`TCPLOG`] under the manual's name.
pub const TCP_JSON: &str = "%{+json}o %(client_ip)ci %(client_port)cp %(accept_date)t %(frontend_name)ft %(backend_name)b %(server_name)s %(Tw)Tw %(Tc)Tc %(Tt)Tt %(bytes_read)B %(termination_state)ts %(actconn)ac %(feconn)fc %(beconn)bc %(srv_conn)sc %(retries)rc %(srv_queue)sq %(backend_queue)bq";
