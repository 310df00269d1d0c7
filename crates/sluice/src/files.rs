//! Reading the configuration's files: `-f` names, directories, and what keywords refer to.

use std::fs;
use std::io::Read;
use std::path::Path;

use sluice_config::SourceFile;
use sluice_expr::Loader;

/// Reads files from the disk for the language.
pub struct Disk;

impl Loader for Disk {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        fs::read(path).map_err(|e| reason(&e))
    }
}

/// An error in the words of strerror(3), without Rust's number behind it.
pub fn reason(e: &std::io::Error) -> String {
    let text = e.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

/// Reads what `-f` named: files as they are, of a directory the `*.cfg` files in the order of their names.
pub fn read_all(names: &[String]) -> Result<Vec<SourceFile>, String> {
    let mut out = Vec::new();
    for name in names {
        if name != "-" && Path::new(name).is_dir() {
            for file in directory(name)? {
                out.push(read(&file)?);
            }
        } else {
            out.push(read(name)?);
        }
    }
    Ok(out)
}

fn directory(name: &str) -> Result<Vec<String>, String> {
    let fail = |e: std::io::Error| {
        format!(
            "cannot open configuration directory {name} : {}",
            reason(&e)
        )
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(name).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let file = entry.file_name().to_string_lossy().into_owned();
        let is_file = entry.path().is_file();
        if is_file && file.ends_with(".cfg") && !file.starts_with('.') {
            files.push(format!("{}/{file}", name.trim_end_matches('/')));
        }
    }
    files.sort();
    Ok(files)
}

fn read(name: &str) -> Result<SourceFile, String> {
    let text = if name == "-" {
        let mut text = Vec::new();
        std::io::stdin().read_to_end(&mut text).map(|_| text)
    } else {
        fs::read(name)
    };
    let text =
        text.map_err(|e| format!("could not open configuration file {name} : {}", reason(&e)))?;
    Ok(SourceFile {
        name: name.to_string(),
        text,
    })
}
