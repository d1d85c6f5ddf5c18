#!/usr/bin/env bash
# Makes the packages of one built program in a folder: packaging/build.sh PROGRAM FOLDER
# A Debian package, a tar file for other systems with glibc 2.36 or later, an OCI image, the debug lines as a file of their own, the notes of the
# release, and checksums. The same program gives the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
version=$("$program" -V | cut -d ' ' -f 2)
commit=$("$program" --version | sed -n 's/^commit: //p')
architecture=$(dpkg --print-architecture)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022

# gdb finds the debug lines through the link and the build's id
debug=$out/stook-$version-$architecture.debug
objcopy --only-keep-debug --compress-debug-sections=zlib "$program" "$debug"
mkdir "$stage/program"
objcopy --strip-all --add-gnu-debuglink="$debug" "$program" "$stage/program/stook"

# the files as they are installed
root=$stage/root
install -D "$stage/program/stook" "$root/usr/bin/stook"
mkdir -p "$root"/usr/share/{man/man1,bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d,doc/stook/examples} "$root/etc/stook"
"$root/usr/bin/stook" man-pages "$root/usr/share/man/man1"
gzip -9 -n "$root"/usr/share/man/man1/*.1
"$root/usr/bin/stook" completions bash >"$root/usr/share/bash-completion/completions/stook"
"$root/usr/bin/stook" completions zsh >"$root/usr/share/zsh/vendor-completions/_stook"
"$root/usr/bin/stook" completions fish >"$root/usr/share/fish/vendor_completions.d/stook.fish"
install -m 644 README.md LICENSE "$root/usr/share/doc/stook/"
install -m 644 packaging/debian/example.env "$root/usr/share/doc/stook/examples/"
gzip -9 -n -c CHANGELOG.md >"$root/usr/share/doc/stook/changelog.gz"

tar -C "$root/usr" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - . | gzip -9 -n >"$out/stook-$version-$architecture-linux.tar.gz"
packaging/oci.py "$root/usr/bin/stook" "$version" "$commit" "$out/stook-$version-$architecture-oci.tar"

for unit in packaging/debian/*.service packaging/debian/*.timer; do
  install -D -m 644 "$unit" "$root/usr/lib/systemd/system/$(basename "$unit")"
done
install -D -m 644 packaging/debian/stook.sysusers "$root/usr/lib/sysusers.d/stook.conf"
install -D -m 644 packaging/debian/stook.tmpfiles "$root/usr/lib/tmpfiles.d/stook.conf"
mkdir "$root/DEBIAN"
install packaging/debian/postinst packaging/debian/prerm packaging/debian/postrm "$root/DEBIAN/"
cat >"$root/DEBIAN/control" <<CONTROL
Package: stook
Version: $version-1
Architecture: $architecture
Maintainer: The Stook developers <stook@invalid>
Installed-Size: $(du -ks "$root" | cut -f 1)
Depends: libc6 (>= 2.36), libgcc-s1, adduser
Recommends: ca-certificates
Section: database
Priority: optional
Homepage: https://github.com/stook/stook
Description: catalogue of records from several systems
 Imports records about the same things from several systems, consolidates
 them by key with the origin of every value known, links, tags and checks
 them, and serves them over HTTP while imports run. A catalogue is described
 in one file, without code.
CONTROL
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$root" "$out/stook_$version-1_$architecture.deb" >/dev/null

# the topmost section of the change log
awk '/^## / && seen++ { exit } seen' CHANGELOG.md >"$out/stook-$version-notes.md"
(cd "$out" && sha256sum -- stook* >SHA256SUMS)
