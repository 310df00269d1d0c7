//! `x509_v_err_str`: the name of a certificate verification error by its number, as OpenSSL 3 numbers them.

use std::borrow::Cow;

use crate::conv::operand::on_int;
use crate::value::Value;

converters! {
    "x509_v_err_str" () Sint -> Str, |_, s, _| on_int(s, |code| Some(name(code)))
        => "The name of a certificate verification error, `X509_V_ERR_CERT_HAS_EXPIRED` for 10; a number without name stays one.";
}

fn name(code: i64) -> Value<'static> {
    match usize::try_from(code).ok().and_then(|i| NAMES.get(i)) {
        Some(name) if code == 0 => Value::Str(Cow::Owned(format!("X509_V_{name}").into_bytes())),
        Some(name) => Value::Str(Cow::Owned(format!("X509_V_ERR_{name}").into_bytes())),
        None => Value::Str(Cow::Owned(code.to_string().into_bytes())),
    }
}

/// The names after `X509_V_ERR_` (after `X509_V_` for the first), by number.
const NAMES: &[&str] = &[
    "OK",
    "UNSPECIFIED",
    "UNABLE_TO_GET_ISSUER_CERT",
    "UNABLE_TO_GET_CRL",
    "UNABLE_TO_DECRYPT_CERT_SIGNATURE",
    "UNABLE_TO_DECRYPT_CRL_SIGNATURE",
    "UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY",
    "CERT_SIGNATURE_FAILURE",
    "CRL_SIGNATURE_FAILURE",
    "CERT_NOT_YET_VALID",
    "CERT_HAS_EXPIRED",
    "CRL_NOT_YET_VALID",
    "CRL_HAS_EXPIRED",
    "ERROR_IN_CERT_NOT_BEFORE_FIELD",
    "ERROR_IN_CERT_NOT_AFTER_FIELD",
    "ERROR_IN_CRL_LAST_UPDATE_FIELD",
    "ERROR_IN_CRL_NEXT_UPDATE_FIELD",
    "OUT_OF_MEM",
    "DEPTH_ZERO_SELF_SIGNED_CERT",
    "SELF_SIGNED_CERT_IN_CHAIN",
    "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
    "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
    "CERT_CHAIN_TOO_LONG",
    "CERT_REVOKED",
    "NO_ISSUER_PUBLIC_KEY",
    "PATH_LENGTH_EXCEEDED",
    "INVALID_PURPOSE",
    "CERT_UNTRUSTED",
    "CERT_REJECTED",
    "SUBJECT_ISSUER_MISMATCH",
    "AKID_SKID_MISMATCH",
    "AKID_ISSUER_SERIAL_MISMATCH",
    "KEYUSAGE_NO_CERTSIGN",
    "UNABLE_TO_GET_CRL_ISSUER",
    "UNHANDLED_CRITICAL_EXTENSION",
    "KEYUSAGE_NO_CRL_SIGN",
    "UNHANDLED_CRITICAL_CRL_EXTENSION",
    "INVALID_NON_CA",
    "PROXY_PATH_LENGTH_EXCEEDED",
    "KEYUSAGE_NO_DIGITAL_SIGNATURE",
    "PROXY_CERTIFICATES_NOT_ALLOWED",
    "INVALID_EXTENSION",
    "INVALID_POLICY_EXTENSION",
    "NO_EXPLICIT_POLICY",
    "DIFFERENT_CRL_SCOPE",
    "UNSUPPORTED_EXTENSION_FEATURE",
    "UNNESTED_RESOURCE",
    "PERMITTED_VIOLATION",
    "EXCLUDED_VIOLATION",
    "SUBTREE_MINMAX",
    "APPLICATION_VERIFICATION",
    "UNSUPPORTED_CONSTRAINT_TYPE",
    "UNSUPPORTED_CONSTRAINT_SYNTAX",
    "UNSUPPORTED_NAME_SYNTAX",
    "CRL_PATH_VALIDATION_ERROR",
    "PATH_LOOP",
    "SUITE_B_INVALID_VERSION",
    "SUITE_B_INVALID_ALGORITHM",
    "SUITE_B_INVALID_CURVE",
    "SUITE_B_INVALID_SIGNATURE_ALGORITHM",
    "SUITE_B_LOS_NOT_ALLOWED",
    "SUITE_B_CANNOT_SIGN_P_384_WITH_P_256",
    "HOSTNAME_MISMATCH",
    "EMAIL_MISMATCH",
    "IP_ADDRESS_MISMATCH",
    "DANE_NO_MATCH",
    "EE_KEY_TOO_SMALL",
    "CA_KEY_TOO_SMALL",
    "CA_MD_TOO_WEAK",
    "INVALID_CALL",
    "STORE_LOOKUP",
    "NO_VALID_SCTS",
    "PROXY_SUBJECT_NAME_VIOLATION",
    "OCSP_VERIFY_NEEDED",
    "OCSP_VERIFY_FAILED",
    "OCSP_CERT_UNKNOWN",
    "UNSUPPORTED_SIGNATURE_ALGORITHM",
    "SIGNATURE_ALGORITHM_MISMATCH",
    "SIGNATURE_ALGORITHM_INCONSISTENCY",
    "INVALID_CA",
    "PATHLEN_INVALID_FOR_NON_CA",
    "PATHLEN_WITHOUT_KU_KEY_CERT_SIGN",
    "KU_KEY_CERT_SIGN_INVALID_FOR_NON_CA",
    "ISSUER_NAME_EMPTY",
    "SUBJECT_NAME_EMPTY",
    "MISSING_AUTHORITY_KEY_IDENTIFIER",
    "MISSING_SUBJECT_KEY_IDENTIFIER",
    "EMPTY_SUBJECT_ALT_NAME",
    "EMPTY_SUBJECT_SAN_NOT_CRITICAL",
    "CA_BCONS_NOT_CRITICAL",
    "AUTHORITY_KEY_IDENTIFIER_CRITICAL",
    "SUBJECT_KEY_IDENTIFIER_CRITICAL",
    "CA_CERT_MISSING_KEY_USAGE",
    "EXTENSIONS_REQUIRE_VERSION_3",
    "EC_KEY_EXPLICIT_PARAMS",
];

#[cfg(test)]
mod tests {
    use crate::conv::testing::check_new;

    #[test]
    fn names() {
        check_new(&[
            ("int(0),x509_v_err_str", Some("X509_V_OK")),
            (
                "int(10),x509_v_err_str",
                Some("X509_V_ERR_CERT_HAS_EXPIRED"),
            ),
            (
                "int(18),x509_v_err_str",
                Some("X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT"),
            ),
            (
                "int(62),x509_v_err_str",
                Some("X509_V_ERR_HOSTNAME_MISMATCH"),
            ),
            (
                "int(94),x509_v_err_str",
                Some("X509_V_ERR_EC_KEY_EXPLICIT_PARAMS"),
            ),
            ("int(95),x509_v_err_str", Some("95")),
            ("int(-1),x509_v_err_str", Some("-1")),
        ]);
    }
}
