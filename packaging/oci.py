#!/usr/bin/env python3
"""Writes an OCI image layout (a .tar that podman, skopeo and crane read) with a program and the few packages of Debian that it needs,
without a container builder: oci.py PROGRAM VERSION COMMIT FILE.tar

The image has no shell. The program runs as user 65532 in /data."""
import gzip
import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

PACKAGES = ["base-files", "ca-certificates", "gcc-12-base", "libc6", "libgcc-s1"]
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
USER = 65532
# the same input gives the same image
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))


def make_root(program, root):
    """Unpacks the packages below `root`, without running what they would run, and adds the program."""
    with tempfile.TemporaryDirectory() as downloads:
        # apt downloads as an unprivileged user where it can
        os.chmod(downloads, 0o777)
        subprocess.run(["apt-get", "download", "-qq", *PACKAGES], cwd=downloads, check=True)
        for package in sorted(pathlib.Path(downloads).glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
    for unneeded in ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian"):
        subprocess.run(["rm", "-rf", root / unneeded], check=True)
    authorities = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    (root / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
    (root / "etc/ssl/certs/ca-certificates.crt").write_text("".join(file.read_text() for file in authorities))
    (root / "etc/passwd").write_text(f"root:x:0:0:root:/root:/sbin/nologin\nstook:x:{USER}:{USER}:stook:/data:/sbin/nologin\n")
    (root / "etc/group").write_text(f"root:x:0:\nstook:x:{USER}:\n")
    (root / "usr/bin").mkdir(parents=True, exist_ok=True)
    (root / "usr/bin/stook").write_bytes(pathlib.Path(program).read_bytes())
    (root / "usr/bin/stook").chmod(0o755)
    (root / "data").mkdir()
    (root / "tmp").mkdir(exist_ok=True)


def make_layer(root):
    """The files below `root` as one tar file, in a fixed order and with fixed times and owners."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            entry = tar.gettarinfo(path, str(path.relative_to(root)))
            owner = USER if entry.name == "data" else 0
            entry.uid, entry.gid, entry.uname, entry.gname, entry.mtime = owner, owner, "", "", EPOCH
            if entry.name == "tmp":
                entry.mode = 0o1777
            if entry.isreg():
                with open(path, "rb") as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)
    return layer.getvalue()


class Layout:
    """The blobs of a layout, by their digests."""

    def __init__(self):
        self.files = {}

    def add(self, media_type, content):
        if not isinstance(content, bytes):
            content = json.dumps(content, sort_keys=True).encode()
        digest = hashlib.sha256(content).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def write(self, path):
        with tarfile.open(path, "w") as tar:
            for name, content in sorted(self.files.items()):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mtime = len(content), EPOCH
                tar.addfile(entry, io.BytesIO(content))


def main():
    program, version, commit, output = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        make_root(program, root)
        tar = make_layer(root)
    layout = Layout()
    layer = layout.add("application/vnd.oci.image.layer.v1.tar+gzip", gzip.compress(tar, mtime=EPOCH))
    labels = {
        "org.opencontainers.image.title": "stook",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.revision": commit,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    platform = {"architecture": ARCHITECTURES[os.uname().machine], "os": "linux"}
    settings = {"User": f"{USER}:{USER}", "WorkingDir": "/data", "Entrypoint": ["/usr/bin/stook"], "Cmd": ["--help"], "Env": ["PATH=/usr/bin"]}
    settings |= {"ExposedPorts": {"7070/tcp": {}}, "Volumes": {"/data": {}}, "Labels": labels}
    unpacked = f"sha256:{hashlib.sha256(tar).hexdigest()}"
    config = layout.add("application/vnd.oci.image.config.v1+json", {**platform, "config": settings, "rootfs": {"type": "layers", "diff_ids": [unpacked]}})
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": [layer], "annotations": labels}
    described = layout.add("application/vnd.oci.image.manifest.v1+json", manifest)
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json"}
    index["manifests"] = [{**described, "platform": platform, "annotations": {"org.opencontainers.image.ref.name": version}}]
    layout.files["index.json"] = json.dumps(index).encode()
    layout.files["oci-layout"] = json.dumps({"imageLayoutVersion": "1.0.0"}).encode()
    layout.write(output)


if __name__ == "__main__":
    main()
