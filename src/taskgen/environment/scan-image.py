"""Searches an image for the solution and the hidden tests, in git histories, files and packages.

Reads a JSON request from standard input and prints a JSON report.
"""

import hashlib
import json
import os
import re
import stat
import subprocess
import sys

FILE_BYTES_MAX = 64 * 1024 * 1024
# Shorter files may be equal by chance.
FILE_BYTES_MIN = 33
FOUND_MAX = 50
SKIPPED_FOLDERS = ('/proc', '/sys', '/dev')

request = json.load(sys.stdin)
repository = request['repository']
lines = {line.encode('latin-1') for line in request['lines']}
shortest_line = min(map(len, lines), default=0)
blobs = set(request['blobs'])
# Ids of blobs are SHA-1 (40 digits) or SHA-256 (64 digits).
hash_function = hashlib.sha256 if any(len(blob) == 64 for blob in blobs) else hashlib.sha1
packages = [(each, re.compile(each['copy'])) for each in request['packages']]
found = []


def report(kind, detail):
    if len(found) < FOUND_MAX:
        found.append({'kind': kind, 'detail': detail[:300]})


def git(*words, cwd=repository):
    done = subprocess.run(
        ['git', '-c', 'core.fsmonitor=false', '-c', 'safe.directory=*', *words],
        cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout


def check_repository():
    """Reports changed files, and everything in the repository besides the one commit of the base."""
    code, status = git('status', '--porcelain=v1', '-z', '--untracked-files=all')
    if code != 0:
        return report('dirty', 'git status fails in the repository.')
    for entry in filter(None, status.split(b'\0')):
        report('dirty', ascii(entry.decode('utf-8', 'replace')))
    if git('rev-parse', 'HEAD^{tree}')[1].strip().decode() != request['tree']:
        report('history', 'The commit does not have the tree of the base.')
    if git('rev-list', '--all', '--reflog', '--count')[1].strip() != b'1':
        report('history', 'There is more than one commit.')
    if len(git('for-each-ref')[1].splitlines()) != 1:
        report('history', 'There is more than one ref.')
    for name in ('ORIG_HEAD', 'FETCH_HEAD', 'MERGE_HEAD', 'packed-refs', 'shallow', 'objects/info/alternates'):
        if os.path.lexists(os.path.join(repository, '.git', name)):
            report('history', 'The file .git/' + name + ' exists.')
    for line in git('fsck', '--lost-found', '--no-progress')[1].splitlines():
        report('history', 'Unreachable object: ' + line.decode('utf-8', 'replace'))


def tracked_files():
    """Returns the paths of the base tree. Their contents are not leaks."""
    names = git('ls-files', '-z')[1].split(b'\0')
    return {os.path.join(os.fsencode(repository), name) for name in names if name}


def read(path):
    """Returns the content of a regular file; empty for other files and for files that cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, 'rb') as file:
            stats = os.fstat(file.fileno())
            is_plain = stat.S_ISREG(stats.st_mode) and stats.st_size <= FILE_BYTES_MAX
            return file.read() if is_plain else b''
    except OSError:
        return b''


def long_lines(content):
    """Returns the lines that are at least as long as the shortest line that is searched for."""
    if not lines:
        return set()
    return {text for text in map(bytes.strip, content.split(b'\n')) if len(text) >= shortest_line}


def scan_files():
    """Searches all files outside the base tree, and all git folders. Content that the base tree has too is not a leak."""
    known = tracked_files()
    for path in known:
        content = read(path)
        lines.difference_update(long_lines(content))
        blobs.discard(blob_id(content))
    git_folders = []
    for folder, folders, names in os.walk(b'/', followlinks=False):
        folders[:] = [name for name in folders if os.fsdecode(os.path.join(folder, name)) not in SKIPPED_FOLDERS]
        if folder == os.fsencode(repository) and b'.git' in folders:
            folders.remove(b'.git')
        if {'HEAD', 'objects', 'refs'} <= set(map(os.fsdecode, [*folders, *names])):
            git_folders.append(os.fsdecode(folder))
        scan_packages(os.fsdecode(folder), folders)
        for name in names:
            path = os.path.join(folder, name)
            if path not in known:
                scan_file(path)
    for git_folder in git_folders:
        for blob in blobs:
            if git('--git-dir=' + git_folder, 'cat-file', '-e', blob, cwd='/')[0] == 0:
                report('history', git_folder + ' has a file of the solution or its tests.')
                break


def scan_file(path):
    content = read(path)
    if not content:
        return
    if len(content) >= FILE_BYTES_MIN and blob_id(content) in blobs:
        report('file', os.fsdecode(path) + ' is a file of the solution or its tests.')
    for line in lines & long_lines(content):
        text = ascii(line.decode('utf-8', 'replace'))
        report('line', os.fsdecode(path) + ' has a line of the solution or its tests: ' + text)
        break


def blob_id(content):
    """Returns the id that git gives a file of this content."""
    return hash_function(b'blob %d\0' % len(content) + content).hexdigest()


def scan_packages(folder, names):
    """Reports copies of the project's own packages that were not installed from the tree."""
    for path in (os.path.join(folder, os.fsdecode(name)) for name in names):
        for package, pattern in packages:
            if pattern.search(path) and not is_linked(path) and not is_earlier(path, package):
                report('package', path + ' is a copy of ' + package['name'] + '.')


def is_earlier(path, package):
    """Returns whether a copy was published before the tree: tools often depend on earlier versions of the project."""
    own = parse_version(package['version'] or '')
    # Some projects have a version that is above all others.
    if not own or re.fullmatch('99+', str(own[0])):
        return False
    versions = [parse_version(each) for each in copy_versions(path)]
    return bool(versions) and all(each and (each < own or (package['isLocked'] and each == own)) for each in versions)


def copy_versions(path):
    """Returns the versions of a copy: from its package.json, its subfolders or its name."""
    try:
        return [str(json.loads(read(os.path.join(path, 'package.json')))['version'])]
    except (ValueError, KeyError, TypeError):
        pass
    folders = [name for name in os.listdir(path) if name[:1].isdigit()]
    return folders or re.findall(r'[-@]v?(\d[^/]*)$', path)


def parse_version(version):
    """Returns the numbers of a version without trailing zeros. Marks such as SNAPSHOT do not count."""
    match = re.match(r'\d+(?:\.\d+)*', version)
    numbers = [int(part) for part in match[0].split('.')] if match else []
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return numbers


def is_linked(path):
    """Returns whether a path is a link into the tree, or a package that pip installed from the tree."""
    if os.path.islink(path):
        return (os.path.realpath(path) + '/').startswith(repository + '/')
    try:
        with open(os.path.join(path, 'direct_url.json'), encoding='utf-8') as file:
            return json.load(file).get('url', '').startswith('file://' + repository)
    except (OSError, ValueError):
        return False


check_repository()
scan_files()
used = int(subprocess.run(['du', '-sxk', '/'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.split()[0])
print(json.dumps({'found': found, 'usedKb': used}))
