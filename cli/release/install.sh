#!/bin/sh
# Installs mongo-lease and mongo-lease-migrate from a release archive, with their manual pages and completions.
#
#   install.sh ARCHIVE.tar.gz [--prefix DIR]    installs; ARCHIVE.tar.gz.sha256 must stand beside the archive
#   install.sh --uninstall [--prefix DIR]       removes what was installed
#
# The prefix is /usr/local. Packagers set DESTDIR, which is put before the prefix. The installed files are listed in
# PREFIX/share/doc/mongo-lease/installed.
set -eu
# Everybody may read what is installed, whatever the caller hides.
umask 022

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

prefix=/usr/local archive='' uninstall=''
while [ $# -gt 0 ]; do
  case $1 in
    --prefix)
      [ $# -gt 1 ] || fail "--prefix needs a folder"
      prefix=$2
      shift
      ;;
    --uninstall) uninstall=yes ;;
    -h | --help)
      sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    -*) fail "$1: an unknown option; --help lists them" ;;
    *)
      [ -z "$archive" ] || fail "one archive only: $archive, and $1"
      archive=$1
      ;;
  esac
  shift
done
case $prefix in
  /*) ;;
  *) fail "--prefix $prefix: it must begin with /" ;;
esac
root=${DESTDIR:-}$prefix
listed=$root/share/doc/mongo-lease/installed

# Removes the files of a list. The folders stay, because others may use them.
remove() {
  while IFS= read -r file; do
    rm -f "$root/$file"
  done < "$1"
}

if [ -n "$uninstall" ]; then
  [ -z "$archive" ] || fail "--uninstall takes no archive"
  [ -f "$listed" ] || fail "nothing is installed in $root: $listed does not exist"
  [ -w "$(dirname "$listed")" ] || fail "no permission to write to $root"
  remove "$listed"
  rm -f "$listed"
  rmdir "$root/share/doc/mongo-lease" 2> /dev/null || true
  echo "removed from $root"
  exit 0
fi

[ -n "$archive" ] || fail "which archive? --help tells how this is used"
[ -f "$archive" ] || fail "$archive: there is no such file"
sum=$archive.sha256
[ -f "$sum" ] || fail "$sum: there is no such file, so the archive cannot be checked"
expected=$(cut -d ' ' -f 1 "$sum")
if command -v sha256sum > /dev/null; then
  found=$(sha256sum "$archive" | cut -d ' ' -f 1)
elif command -v shasum > /dev/null; then
  found=$(shasum -a 256 "$archive" | cut -d ' ' -f 1)
else
  fail "neither sha256sum nor shasum is there, so the archive cannot be checked"
fi
[ -n "$expected" ] && [ "$found" = "$expected" ] || fail "$archive has the checksum $found,
and $sum says $expected. Nothing was installed."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xzf "$archive" -C "$work"
set -- "$work"/*
[ $# = 1 ] && [ -f "$1/bin/mongo-lease" ] || fail "$archive is not an archive of mongo-lease"
source=$1
"$source/bin/mongo-lease" --version > "$work/version" 2>&1 \
  || fail "the programs of $archive do not run on this machine: $(cat "$work/version")
(They were tried in $work. If programs may not run there, set TMPDIR to another folder.)"

mkdir -p "$root" 2> /dev/null && [ -w "$root" ] || fail "no permission to write to $root; see --prefix"
(cd "$source" && find . -type f | sed 's|^\./||' | LC_ALL=C sort) > "$work/files"
while IFS= read -r file; do
  mkdir -p "$root/$(dirname "$file")"
  # By a new name, so that a program that runs is replaced and not overwritten.
  cp -p "$source/$file" "$root/$file.new"
  mv -f "$root/$file.new" "$root/$file"
done < "$work/files"
# Files of an earlier version that this one does not have.
if [ -f "$listed" ]; then
  LC_ALL=C sort "$listed" | LC_ALL=C comm -23 - "$work/files" > "$work/old"
  remove "$work/old"
fi
cp "$work/files" "$listed"
echo "$(cat "$work/version") is installed in $root"
