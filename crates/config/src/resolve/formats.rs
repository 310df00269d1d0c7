//! Log lines that have a name, beside the two of [`sluice_expr::logformat`] (manual chapter 8.2).

/// `option httplog clf`
pub(crate) const HTTP_CLF: &str = "%{+Q}o %{-Q}ci - - [%trg] %r %ST %B \"\" \"\" %cp %ms %ft %b %s %TR %Tw %Tc %Tr %Ta %tsc %ac %fc %bc %sc %rc %sq %bq %CC %CS %hrl %hsl";

/// `option tcplog clf`
pub(crate) const TCP_CLF: &str = "%{+Q}o %{-Q}ci - - [%T] \"TCP \" 000 %B \"\" \"\" %cp %ms %ft %b %s %Th %Tw %Tc %Tt %U %ts-- %ac %fc %bc %sc %rc %sq %bq \"\" \"\" ";

/// `option httpslog`: the HTTP line, then what is known of TLS.
pub(crate) fn https() -> String {
    format!(
        "{} %[fc_err]/%[ssl_fc_err,hex]/%[ssl_c_err]/%[ssl_c_ca_err]/%[ssl_fc_is_resumed] %[ssl_fc_sni]/%sslv/%sslc",
        sluice_expr::logformat::HTTPLOG
    )
}
