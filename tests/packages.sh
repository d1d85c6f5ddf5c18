#!/usr/bin/env bash
# Tries the packages of a folder in a clean root of Debian: tests/packages.sh FOLDER ROOT
# ROOT is such a root with systemd (`make clean-root`); a copy of it is used. Needs to be root. Each line of output is something that holds.
set -euo pipefail
packages=$(realpath "$1")
clean=$(realpath "$2")
work=$(mktemp -d)
server=
finish() {
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap finish EXIT
root=$work/root
cp -a "$clean" "$root"
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
holds() { printf 'holds: %s\n' "$*"; }
fails() {
  printf 'FAILS: %s\n' "$*" >&2
  exit 1
}

(cd "$packages" && sha256sum --quiet --check SHA256SUMS) || fails "the checksums are those of the files"
holds "the checksums are those of the files"

cp "$packages"/stook_*.deb "$root/tmp/stook.deb"
inside dpkg --install /tmp/stook.deb >"$work/log" 2>&1 || { cat "$work/log" >&2; fails "the package installs beside what a clean system has"; }
version=$(inside stook -V)
[ "stook $(inside dpkg-query -W -f '${Version}' stook)" = "$version-1" ] || fails "program and package have one version"
holds "the package installs; $version"
inside stook --version | grep -q '^features: arrow, lab, pages, postgres$' || fails "all features are in it"
for file in usr/share/man/man1/stook.1.gz usr/share/man/man1/stook-import.1.gz usr/share/bash-completion/completions/stook usr/share/doc/stook/changelog.gz; do
  [ -s "$root/$file" ] || fails "/$file is installed"
done
holds "manual pages, completions and the change log are installed"
[ "$(inside stat -c '%U:%G %a' /etc/stook)" = 'root:stook 750' ] || fails "/etc/stook can be read by the service only"
[ "$(inside stat -c '%U:%G %a' /var/lib/stook)" = 'stook:stook 750' ] || fails "/var/lib/stook belongs to the service"
holds "the service has a user and folders of its own"

inside systemd-analyze verify --man=no stook-serve@demo.service stook-work@demo.service stook-backup@demo.service stook-backup@demo.timer >"$work/log" 2>&1 || true
# of a system that does not run, only what is said of these units counts
if grep -i 'stook' "$work/log"; then fails "systemd finds nothing wrong with the units"; fi
holds "systemd finds nothing wrong with the units"

# what systemd would run, with the environment that it would give
environment=(PATH=/usr/bin:/bin)
command_of() {
  sed -n "s/^ExecStart=//p" "$root/usr/lib/systemd/system/$1" | sed -e 's/%i/demo/g' -e 's/%%/%/g'
}
while read -r setting; do environment+=("${setting//%i/demo}"); done < <(sed -n 's/^Environment=//p' "$root/usr/lib/systemd/system/stook-serve@.service")
inside stook init /etc/stook/demo >/dev/null
inside install -d -m 0750 -o stook -g stook /var/lib/stook/demo
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
environment+=("STOOK_SERVE_OPTIONS=--listen 127.0.0.1:$port")
as_service=(chroot "$root" /usr/bin/setpriv --reuid=stook --regid=stook --clear-groups --no-new-privs /usr/bin/env -i "${environment[@]}")
"${as_service[@]}" /bin/sh -c "exec $(command_of stook-serve@.service)" >"$work/serve.log" 2>&1 &
server=$!
for _ in $(seq 100); do
  answer=$(python3 -c "import sys, urllib.request; print(urllib.request.urlopen('http://127.0.0.1:$port/readyz', timeout=5).status)" 2>/dev/null) && break
  sleep 0.1
done
[ "${answer:-}" = 200 ] || { cat "$work/serve.log" >&2; fails "the service answers"; }
[ -s "$root/var/lib/stook/demo/stook.sqlite" ] || fails "the records are in /var/lib/stook"
holds "the command of stook-serve@ answers requests"

"${as_service[@]}" /bin/sh -c "$(command_of stook-backup@.service | sed -e "s/^\/bin\/sh -c '//" -e "s/'\$//")" >"$work/log" 2>&1 || { cat "$work/log" >&2; fails "the command of stook-backup@ copies a store in use"; }
ls "$root"/var/backups/stook/demo-*.backup >/dev/null || fails "the backup is in /var/backups/stook"
holds "the command of stook-backup@ copies a store in use"

kill -TERM "$server"
wait "$server" || { cat "$work/serve.log" >&2; fails "the service ends well when it is asked to"; }
server=
holds "the service ends well when it is asked to"

inside dpkg --purge stook >"$work/log" 2>&1 || { cat "$work/log" >&2; fails "the package can be purged"; }
[ ! -e "$root/usr/bin/stook" ] || fails "the program is gone"
[ -s "$root/var/lib/stook/demo/stook.sqlite" ] || fails "records are kept when the package is purged"
holds "the package can be purged, and records are kept"

mkdir "$work/layout" "$work/image"
tar -C "$work/layout" -xf "$packages"/stook-*-oci.tar
layer=$(python3 - "$work/layout" <<'PYTHON'
import hashlib, json, pathlib, sys
layout = pathlib.Path(sys.argv[1])
def blob(descriptor):
    content = (layout / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()
    assert len(content) == descriptor["size"] and "sha256:" + hashlib.sha256(content).hexdigest() == descriptor["digest"]
    return content
assert json.loads((layout / "oci-layout").read_text())["imageLayoutVersion"] == "1.0.0"
manifest = json.loads(blob(json.loads((layout / "index.json").read_text())["manifests"][0]))
config = json.loads(blob(manifest["config"]))
assert config["config"]["Entrypoint"] == ["/usr/bin/stook"] and len(config["rootfs"]["diff_ids"]) == 1
blob(manifest["layers"][0])
print(layout / "blobs" / manifest["layers"][0]["digest"].replace(":", "/"))
PYTHON
)
tar -C "$work/image" -xzf "$layer"
[ "$(chroot --userspec=65532:65532 "$work/image" /usr/bin/stook -V)" = "$version" ] || fails "the program of the image runs"
holds "the image is an OCI layout, and its program runs as its user"

mkdir "$work/tar"
tar -C "$work/tar" -xzf "$packages"/stook-*-linux.tar.gz
[ "$("$work/tar/bin/stook" -V)" = "$version" ] || fails "the program of the tar file runs"
holds "the program of the tar file runs"

if ls "$packages"/stook-*.whl >/dev/null 2>&1; then
  python3 -m venv "$work/python"
  "$work/python/bin/pip" install --quiet --disable-pip-version-check --no-index "$packages"/stook-*.whl
  [ "$("$work/python/bin/stook" -V)" = "$version" ] || fails "the wheel puts the program on the path"
  holds "the wheel puts the program on the path"
  "$work/python/bin/stook" init "$work/demo" >/dev/null
  "$work/python/bin/python" -c "import stook; catalogue = stook.Catalogue.open('$work/demo'); print(catalogue.describe()['catalogue']); catalogue.close()" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; fails "the module of the wheel opens a catalogue"; }
  holds "the module of the wheel opens a catalogue"
fi
