//! The files that commands write with `-o`.

use crate::CommandError;
use crate::output::stream;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Bytes buffered before they are written.
const BUFFER: usize = 1 << 20;

/// Standard output or a file. A file is written under a temporary name in its folder and renamed by [`Output::finish`]: until then, and if that is
/// never called, an existing file stays unchanged. Devices and pipes are written directly.
pub struct Output {
    target: Target,
}

enum Target {
    Stream(Box<dyn Write>),
    File { written: BufWriter<NamedTempFile>, destination: PathBuf },
    Device(BufWriter<File>),
}

impl Output {
    /// Opens standard output, or a file to write.
    pub fn new(path: Option<&Path>) -> Result<Self, CommandError> {
        let Some(path) = path else { return Ok(Self { target: Target::Stream(Box::new(stream())) }) };
        let target = Self::file(path).map_err(|error| CommandError::new(format!("{}: {error}", path.display())))?;
        Ok(Self { target })
    }

    /// Opens standard output, or a file that must not exist yet and that only its owner may read.
    pub fn private(path: Option<&Path>) -> Result<Self, CommandError> {
        let Some(path) = path else { return Self::new(None) };
        if path.exists() {
            return Err(CommandError::new(format!("{} exists; a backup is written to a new file", path.display())));
        }
        let target = Self::new_file(path.to_owned(), 0o600).map_err(|error| CommandError::new(format!("{}: {error}", path.display())))?;
        Ok(Self { target })
    }

    fn file(path: &Path) -> io::Result<Target> {
        // a symbolic link stays, and the file it leads to is written
        let (destination, mode) = match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => return Ok(Target::Device(BufWriter::with_capacity(BUFFER, File::options().write(true).open(path)?))),
            Ok(found) => {
                // a file without write permission is not replaced either
                File::options().write(true).open(path)?;
                (fs::canonicalize(path)?, found.permissions().mode())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_owned(), 0o666),
            Err(error) => return Err(error),
        };
        Self::new_file(destination, mode)
    }

    fn new_file(destination: PathBuf, mode: u32) -> io::Result<Target> {
        let folder = destination.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let written = tempfile::Builder::new().prefix(".").suffix(".part").permissions(Permissions::from_mode(mode)).tempfile_in(folder)?;
        Ok(Target::File { written: BufWriter::with_capacity(BUFFER, written), destination })
    }

    /// Finishes the output: a file is complete, synced to disk, and renamed.
    pub fn finish(self) -> Result<(), CommandError> {
        match self.target {
            Target::Stream(mut stream) => Ok(stream.flush()?),
            Target::Device(mut device) => Ok(device.flush()?),
            Target::File { written, destination } => {
                persist(written, &destination).map_err(|error| CommandError::new(format!("{}: {error}", destination.display())))
            }
        }
    }
}

fn persist(written: BufWriter<NamedTempFile>, destination: &Path) -> io::Result<()> {
    let written = written.into_inner().map_err(io::IntoInnerError::into_error)?;
    written.as_file().sync_all()?;
    written.persist(destination).map_err(|failed| failed.error)?;
    Ok(())
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.target {
            Target::Stream(stream) => stream.write(bytes),
            Target::File { written, .. } => written.write(bytes),
            Target::Device(device) => device.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.target {
            Target::Stream(stream) => stream.flush(),
            Target::File { written, .. } => written.flush(),
            Target::Device(device) => device.flush(),
        }
    }
}
