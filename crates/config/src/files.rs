//! Files named in the configuration: where relative names start from (`default-path`), and the size they may have.

use crate::cx::Cx;

/// `default-path`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BasePath {
    /// The directory the process was started in.
    #[default]
    Current,
    /// That of the configuration file being read.
    Config,
    /// The one above it.
    Parent,
    Origin(String),
}

impl BasePath {
    /// The path a name stands for in a line of a configuration file.
    pub fn join(&self, config: &str, name: &str) -> String {
        if name.starts_with('/') || name.starts_with("virt@") || name.starts_with("opt@") {
            return name.to_owned();
        }
        let dir = config.rfind('/').map_or("", |at| &config[..=at]);
        match self {
            BasePath::Current => name.to_owned(),
            BasePath::Config => format!("{dir}{name}"),
            BasePath::Parent => format!("{dir}../{name}"),
            BasePath::Origin(base) => format!("{}/{name}", base.trim_end_matches('/')),
        }
    }
}

impl Cx<'_> {
    /// Reads a file named on a line.
    pub fn load_file(&self, name: &str) -> Result<Vec<u8>, String> {
        let path = self.base_path.join(&self.environ.file, name);
        self.opts.loader.load(&path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_names_start_at_the_default_path() {
        let check = |base: BasePath, config: &str, expect: &str| {
            assert_eq!(base.join(config, "a.map"), expect);
            assert_eq!(base.join(config, "/a.map"), "/a.map");
        };
        check(BasePath::Current, "/etc/h/h.cfg", "a.map");
        check(BasePath::Config, "/etc/h/h.cfg", "/etc/h/a.map");
        check(BasePath::Config, "h.cfg", "a.map");
        check(BasePath::Parent, "/etc/h/h.cfg", "/etc/h/../a.map");
        check(BasePath::Parent, "h.cfg", "../a.map");
        check(BasePath::Origin("/srv/".into()), "h.cfg", "/srv/a.map");
    }
}
