//! Files named in the configuration: where relative names start from (`default-path`), and the size they may have.

use std::borrow::Cow;

use sluice_expr::Loader;

use crate::cx::Cx;
use crate::environ::Environ;

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

/// The caller's files, with relative names where `default-path` puts them, and the environment as `setenv` left it.
pub(crate) struct Files<'a> {
    loader: &'a dyn Loader,
    base: Cow<'a, BasePath>,
    environ: Cow<'a, Environ>,
}

impl<'a> Files<'a> {
    pub fn borrowed(loader: &'a dyn Loader, base: &'a BasePath, environ: &'a Environ) -> Self {
        Files {
            loader,
            base: Cow::Borrowed(base),
            environ: Cow::Borrowed(environ),
        }
    }

    /// As they are now, for when the lines have been read.
    pub fn owned(cx: &Cx<'a>) -> Self {
        Files {
            loader: cx.opts.loader,
            base: Cow::Owned(cx.base_path.clone()),
            environ: Cow::Owned(cx.environ.clone()),
        }
    }
}

impl Loader for Files<'_> {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        let path = self.base.join(&self.environ.file, path);
        // Whatever the reason, the file is named.
        self.loader
            .load(&path)
            .map_err(|why| match why.contains(&path) {
                true => why,
                false => format!("cannot read '{path}': {why}"),
            })
    }
    fn env(&self, name: &str) -> Option<String> {
        self.environ.var(name).map(str::to_owned)
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
