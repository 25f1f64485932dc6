"""Looks for the answer in an image: in histories, in files, in packages. Reads what to look for, prints what it found."""

import hashlib
import json
import os
import re
import stat
import subprocess
import sys

FILE_BYTES_MAX = 64 * 1024 * 1024
# Shorter files are alike by chance.
FILE_BYTES_MIN = 33
FOUND_MAX = 50
UNSEEN = ('/proc', '/sys', '/dev')

order = json.load(sys.stdin)
repository = order['repository']
lines = {line.encode('latin-1') for line in order['lines']}
shortest = min(map(len, lines), default=0)
blobs = set(order['blobs'])
copies = [(each['name'], re.compile(each['copy'])) for each in order['packages']]
found = []


def tell(kind, detail):
    if len(found) < FOUND_MAX:
        found.append({'kind': kind, 'detail': detail[:300]})


def git(*words, place=repository):
    done = subprocess.run(
        ['git', '-c', 'core.fsmonitor=false', '-c', 'safe.directory=*', *words],
        cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout


def look_at_history():
    code, status = git('status', '--porcelain=v1', '-z', '--untracked-files=all')
    if code != 0:
        return tell('dirty', 'git status does not work there.')
    for entry in filter(None, status.split(b'\0')):
        tell('dirty', ascii(entry.decode('utf-8', 'replace')))
    if git('rev-parse', 'HEAD^{tree}')[1].strip().decode() != order['tree']:
        tell('history', 'The commit is not the tree of the base.')
    if git('rev-list', '--all', '--reflog', '--count')[1].strip() != b'1':
        tell('history', 'There is more than one commit.')
    if len(git('for-each-ref')[1].splitlines()) != 1:
        tell('history', 'There is more than one ref.')
    for name in ('ORIG_HEAD', 'FETCH_HEAD', 'MERGE_HEAD', 'packed-refs', 'shallow', 'objects/info/alternates'):
        if os.path.lexists(os.path.join(repository, '.git', name)):
            tell('history', 'There is ' + name + '.')
    for line in git('fsck', '--lost-found', '--no-progress')[1].splitlines():
        tell('history', 'Nothing leads to ' + line.decode('utf-8', 'replace'))


def tracked():
    """Files of the base tree, which are no leak, whatever is in them."""
    names = git('ls-files', '-z')[1].split(b'\0')
    return {os.path.join(os.fsencode(repository), name) for name in names if name}


def read(path):
    """Nothing of what is no plain file, or cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, 'rb') as file:
            stats = os.fstat(file.fileno())
            is_plain = stat.S_ISREG(stats.st_mode) and stats.st_size <= FILE_BYTES_MAX
            return file.read() if is_plain else b''
    except OSError:
        return b''


def long_lines(content):
    return {text for text in map(bytes.strip, content.split(b'\n')) if len(text) >= shortest} if shortest else set()


def look_at_files():
    known = tracked()
    for path in known:
        content = read(path)
        lines.difference_update(long_lines(content))
        blobs.difference_update(digests(content))
    gits = []
    for folder, folders, names in os.walk(b'/', followlinks=False):
        folders[:] = [name for name in folders if os.fsdecode(os.path.join(folder, name)) not in UNSEEN]
        if folder == os.fsencode(repository) and b'.git' in folders:
            folders.remove(b'.git')
        if {'HEAD', 'objects', 'refs'} <= set(map(os.fsdecode, [*folders, *names])):
            gits.append(os.fsdecode(folder))
        look_for_packages(os.fsdecode(folder), folders)
        for name in names:
            path = os.path.join(folder, name)
            if path not in known:
                look_at(path)
    for place in gits:
        for blob in blobs:
            if git('--git-dir=' + place, 'cat-file', '-e', blob, place='/')[0] == 0:
                tell('history', place + ' has a file of the answer.')
                break


def look_at(path):
    content = read(path)
    if not content:
        return
    if len(content) >= FILE_BYTES_MIN and blobs & digests(content):
        tell('file', os.fsdecode(path) + ' is a file of the answer.')
    for line in lines & long_lines(content):
        tell('line', os.fsdecode(path) + ' has a line of the answer: ' + ascii(line.decode('utf-8', 'replace')))
        break


def digests(content):
    head = b'blob %d\0' % len(content)
    size = len(next(iter(order['blobs']), '0' * 40))
    return {(hashlib.sha256 if size == 64 else hashlib.sha1)(head + content).hexdigest()}


def look_for_packages(folder, names):
    """The package itself must be a link to the tree, and never a copy that a registry sent."""
    for path in (os.path.join(folder, os.fsdecode(name)) for name in names):
        for package, pattern in copies:
            if pattern.search(path) and not is_linked(path):
                tell('package', path + ' is a copy of ' + package + '.')


def is_linked(path):
    """A link into the tree, or a package that pip installed from it."""
    if os.path.islink(path):
        return (os.path.realpath(path) + '/').startswith(repository + '/')
    try:
        with open(os.path.join(path, 'direct_url.json'), encoding='utf-8') as file:
            return json.load(file).get('url', '').startswith('file://' + repository)
    except (OSError, ValueError):
        return False


look_at_history()
look_at_files()
used = int(subprocess.run(['du', '-sxk', '/'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.split()[0])
print(json.dumps({'found': found, 'usedKb': used}))
