#!/bin/sh
# Makes .venv and installs exactly what the lock file names. A second start finds its own stamp
# and does nothing. Usage: deploy/setup.sh [base|dev]
set -eu

kind="${1:-base}"
root="$(cd "$(dirname "$0")/.." && pwd)"
cd "$root"
case "$kind" in
    base) lock=requirements.lock ;;
    dev) lock=requirements-dev.lock ;;
    *) echo "usage: deploy/setup.sh [base|dev]" >&2; exit 2 ;;
esac
venv="$root/.venv"
stamp="$venv/.installed"
# Made beside the one that a running portal needs; it takes that one's place once it is whole.
fresh="$root/.venv.new"
# What uv itself is worth: eight times faster. Pip does the same work when it cannot be had.
uv_version="0.13.8"

say() { printf '%s\n' "$*" >&2; }
is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
can_make_venvs() { "$1" -c 'import venv, ensurepip' 2>/dev/null; }
is_admin() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }
# Finished by this script, for the Python that is behind it now: an upgrade of Debian puts another one there.
is_whole() {
    "$venv/bin/python" -c 'import os, sys, sysconfig
here = os.path.join(sysconfig.get_path("purelib"), "trainyard.pth")
sys.exit(sys.version_info < (3, 11) or not os.path.exists(here))' 2>/dev/null
}
digest() { cksum < "$1" | tr ' ' '-'; }

install_debian() {
    say "Installing $* from Debian ..."
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 </dev/null ||
        { apt-get update -qq </dev/null && apt-get install -y -qq --no-install-recommends "$@" </dev/null; } >&2
}

find_python() { # the one that is in use comes before what the PATH has
    for name in ${PYTHON:-} "$venv/bin/python" python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3; do
        if command -v "$name" >/dev/null 2>&1 && is_new_enough "$name"; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

need_git() {
    command -v git >/dev/null 2>&1 && return 0
    if is_admin; then
        install_debian git
    else
        say "Git is missing; jobs that fetch their code need it. Type: sudo apt-get install git"
    fi
}

need_python() {
    python="$(find_python || true)"
    if [ -z "$python" ]; then
        say "Trainyard needs Python 3.11 or newer, and none was found on the PATH."
        say "On Debian 12 type: sudo apt-get install python3 python3-venv"
        say "Elsewhere install it and type: make setup PYTHON=/path/to/python3.11"
        exit 1
    fi
    can_make_venvs "$python" && return 0
    if is_admin; then
        install_debian python3-venv
        can_make_venvs "$python" && return 0
    fi
    say "$python cannot make virtual environments. Type: sudo apt-get install python3-venv"
    exit 1
}

make_venv() {
    need_python
    say "Making .venv with $("$python" --version 2>&1) ..."
    "$python" -m venv --clear "$fresh" --prompt .venv
}

name_final_place() { # scripts and settings of an environment hold the folder that it was made in
    "$fresh/bin/python" -c 'import os, pathlib, sys
made, final = map(os.fsencode, sys.argv[1:])
folder = pathlib.Path(sys.argv[1])
for file in [folder / "pyvenv.cfg", *(folder / "bin").iterdir()]:
    if file.is_symlink() or not file.is_file():
        continue
    text, mode = file.read_bytes(), file.stat().st_mode
    if made in text and b"\0" not in text:
        file.unlink()  # it may be one with what uv keeps
        file.write_bytes(text.replace(made, final))
        file.chmod(mode)' "$fresh" "$venv"
}

take_place() {
    old="$root/.venv.old"
    rm -rf "$old"
    trap '' HUP INT TERM # between the two there is none
    if [ -e "$venv" ] || [ -L "$venv" ]; then mv "$venv" "$old"; fi
    mv "$fresh" "$venv"
    trap - HUP INT TERM
    rm -rf "$old"
}

wanted="$kind $(digest "$lock")"
also="dev $(digest requirements-dev.lock)"
is_done() {
    [ -f "$stamp" ] && is_whole || return 1
    found="$(cat "$stamp")"
    [ "$found" = "$wanted" ] || [ "$found" = "$also" ]
}

is_done && exit 0
# Two at once would install into each other's folder; the lock goes with this process.
if command -v flock >/dev/null 2>&1; then
    exec 9<requirements.lock
    flock -n 9 || { say "Another setup is at work here; waiting for it ..."; flock 9; }
    is_done && exit 0
fi

need_git
make_venv
count="$(grep -c '^[a-z0-9].*==' "$lock")"
say "Installing up to $count packages of $lock; every file is checked against its hash ..."
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
is_installed=false
if "$fresh/bin/python" -m pip install -q "uv==$uv_version" </dev/null; then
    if UV_NO_CONFIG=1 "$fresh/bin/uv" pip install --python "$fresh/bin/python" --require-hashes -r "$lock" </dev/null >&2; then
        is_installed=true
    else
        make_venv # without what it has left half done
    fi
fi
if [ $is_installed = false ]; then
    say "uv could not do it here; pip takes a little longer ..."
    "$fresh/bin/python" -m pip install --require-hashes -r "$lock" </dev/null >&2
fi
# The two commands, without building a package: a path file and two launchers.
site="$("$fresh/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
printf '%s\n' "$root" > "$site/trainyard.pth"
launcher() { # NAME MODULE
    printf '#!/bin/sh\nexec "%s/bin/python" -m %s "$@"\n' "$venv" "$2" > "$fresh/bin/$1"
    chmod 755 "$fresh/bin/$1"
}
launcher trainyard portal.cli
launcher trainyard-agent scheduler.agent
printf '%s\n' "$wanted" > "$fresh/.installed"
name_final_place
take_place
say "Installed."
