import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { listOwnPackages } from './build-environment.ts'
import { collectLeakMarkers, listPublishedCopies } from './scan-image.ts'

const SOURCE = `diff --git a/a.py b/a.py
index ${'1'.repeat(40)}..${'2'.repeat(40)} 100644
--- a/a.py
+++ b/a.py
@@ -1 +1,4 @@
+from concurrent.futures import ThreadPoolExecutor, as_completed
+    return sorted(values, key=lambda value: value.rank_of_it)
+# Licensed under the Apache License, Version 2.0 (the "License");
-    return sorted(values, key=lambda value: value.old_rank_of_it)
+short
diff --git a/gone.py b/gone.py
deleted file mode 100644
index ${'3'.repeat(40)}..${'0'.repeat(40)}
`

test('detects the solution and the hidden tests by their distinctive long lines and git blobs', () => {
  const content = 'def test_rank():\n    assert rank([1, 2]) == [2, 1], "the larger one is first"\n\xe9\n'
  const markers = collectLeakMarkers(SOURCE, {
    files: [{ path: 'tests/test_a.py', content, executable: false }],
    deleted: [],
  })
  const id = execFileSync('git', ['hash-object', '--stdin'], { input: Buffer.from(content, 'latin1') })
  expect(markers).toEqual({
    lines: [
      'return sorted(values, key=lambda value: value.rank_of_it)',
      'assert rank([1, 2]) == [2, 1], "the larger one is first"',
    ],
    blobs: ['2'.repeat(40), id.toString().trim()],
  })
})

test('lists the names of a repository in registries', () => {
  const files = {
    'pyproject.toml': '[project]\nname = "Kit.Tools"\n',
    'package.json': '{"name":"@kit/root"}',
    'packages/a/package.json': '{"name":"kit-a","version":"1.0.0"}',
    'node_modules/b/package.json': '{"name":"b"}',
    'go.mod': 'module example.org/Kit/v2\n',
    'Cargo.toml': '[workspace]\n[package]\nname = "kit"\nversion = "0.3.0"\n[dependencies]\nname = "x"\n',
    'pom.xml':
      '<project><parent><groupId>org.kit</groupId><artifactId>up</artifactId><version>2-SNAPSHOT</version></parent><artifactId>core</artifactId><dependencies><dependency><artifactId>x</artifactId></dependency></dependencies></project>',
    'kit.gemspec': '',
    'composer.json': '{"name": "kit/kit"}',
  }
  expect(listOwnPackages({ paths: new Set(Object.keys(files)), texts: new Map(Object.entries(files)) })).toEqual([
    { name: 'python:Kit.Tools' },
    { name: 'node:@kit/root' },
    { name: 'node:kit-a', version: '1.0.0' },
    { name: 'go:example.org/Kit/v2' },
    { name: 'rust:kit', version: '0.3.0' },
    { name: 'java:org.kit:core', version: '2-SNAPSHOT' },
    { name: 'ruby:kit' },
    { name: 'php:kit/kit' },
  ])
})

test.each([
  [
    'python:Kit.Tools',
    '/usr/lib/python3/dist-packages/kit_tools-1.2.dist-info',
    '/usr/lib/kit_tools_more-1.2.dist-info',
  ],
  ['node:@kit/root', '/usr/lib/node_modules/@kit/root', '/usr/lib/node_modules/@kit/rooted'],
  [
    'go:example.org/Kit/v2',
    '/opt/deps/go/pkg/mod/example.org/!kit/v2@v2.0.1',
    '/opt/deps/go/pkg/mod/example.org/kit/v2@v2.0.1',
  ],
  [
    'rust:kit',
    '/opt/deps/cargo/registry/src/index.crates.io-1/kit-0.3.1',
    '/opt/deps/cargo/registry/src/index/kit_core-0.3.1',
  ],
  ['java:org.kit:core', '/opt/deps/m2/org/kit/core', '/opt/deps/m2/org/kit/core-api'],
  ['ruby:kit', '/opt/deps/bundle/ruby/3.3.0/gems/kit-1.0.2', '/opt/deps/bundle/ruby/3.3.0/gems/kit-rails-1.0.2'],
  ['php:kit/kit', '/srv/vendor/kit/kit', '/srv/vendor/kit/kit-more'],
])('recognises a published copy of %s by its path', (name, copy, other) => {
  const program = `import json, re, sys
pattern, *paths = json.load(sys.stdin)
print(json.dumps([bool(re.search(pattern, path)) for path in paths]))`
  const [found] = listPublishedCopies([{ name }])
  const said = execFileSync('python3', ['-c', program], { input: JSON.stringify([found?.copy, copy, other]) })
  expect(JSON.parse(said.toString())).toEqual([true, false])
})
