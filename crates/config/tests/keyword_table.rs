//! The keyword table of `docs/configuration.md` is the registry's. `UPDATE=1` writes it.

const BEGIN: &str = "<!-- keywords -->\n";
const END: &str = "<!-- end of keywords -->";

#[test]
fn the_table_is_the_registrys() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(path).expect("docs/configuration.md");
    let (before, rest) = page.split_once(BEGIN).expect("the table's beginning");
    let (table, after) = rest.split_once(END).expect("the table's end");
    let now = sluice_config::dump::keyword_table() + "\n";
    if std::env::var_os("UPDATE").is_some() {
        let page = [before, BEGIN, &now, END, after].concat();
        std::fs::write(path, page).expect("docs/configuration.md is writable");
        return;
    }
    for (written, registered) in table.lines().zip(now.lines()) {
        assert_eq!(written, registered);
    }
    assert_eq!(table.lines().count(), now.lines().count());
}
