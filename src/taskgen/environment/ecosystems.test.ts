import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Builder, openBuilder } from '../../../test/support/taskgen/image-builders.ts'
import { doneOf, preparePullRequest, scan } from '../../../test/support/taskgen/prepared-pull-request.ts'
import { findRunner } from '../../grading/languages/languages.ts'
import { checkHealth } from './check-health.ts'

vi.setConfig({ testTimeout: 1_800_000, hookTimeout: 1_800_000 })

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>kit</artifactId><version>1</version>
<properties><maven.compiler.release>17</maven.compiler.release><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
<dependencies><dependency><groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId><version>5.11.4</version><scope>test</scope></dependency></dependencies>
<build><plugins><plugin><artifactId>maven-surefire-plugin</artifactId><version>3.2.5</version></plugin></plugins></build>
</project>
`

/** A small repository of each kind: a dependency from a registry where one can be had, and a test that needs it. */
const REPOSITORIES: [name: string, runner: string, files: Record<string, string>, testFile: string][] = [
  [
    'go',
    'go',
    {
      'go.mod': 'module example.org/kit\n\ngo 1.21\n\nrequire github.com/google/go-cmp v0.6.0\n',
      'go.sum':
        'github.com/google/go-cmp v0.6.0 h1:ofyhxvXcZhMsU5ulbFiLKl/XBFqE1GSq7atu8tAmTRI=\ngithub.com/google/go-cmp v0.6.0/go.mod h1:17dUlkBOakJ0+DkrSSNjCkIjxS6bF9zb3elmeNGIjoY=\n',
      'kit.go': 'package kit\n\nfunc One() int { return 1 }\n',
      'kit_test.go':
        'package kit\n\nimport (\n\t"testing"\n\n\t"github.com/google/go-cmp/cmp"\n)\n\nfunc TestOne(t *testing.T) {\n\tif !cmp.Equal(One(), 1) {\n\t\tt.Fatal("no")\n\t}\n}\n',
    },
    'kit_test.go',
  ],
  [
    'go of a newer version',
    'go',
    {
      'go.mod': 'module example.org/kit\n\ngo 1.25.1\n',
      'kit.go': 'package kit\n\nfunc One() int { return 1 }\n',
      'kit_test.go':
        'package kit\n\nimport (\n\t"runtime"\n\t"testing"\n)\n\nfunc TestOne(t *testing.T) {\n\tif One() != 1 || runtime.Version() != "go1.25.1" {\n\t\tt.Fatal(runtime.Version())\n\t}\n}\n',
    },
    'kit_test.go',
  ],
  [
    'pytest',
    'pytest',
    {
      'pyproject.toml':
        '[project]\nname = "kit"\nversion = "1"\nrequires-python = ">=3.9,<3.13"\ndependencies = ["six"]\n',
      'kit.py': 'import sys\n\nONE = sys.version_info[:2]\n',
      'tests/test_kit.py': 'import six\nimport kit\n\n\ndef test_one():\n    assert six.PY3 and kit.ONE == (3, 11)\n',
    },
    'tests/test_kit.py',
  ],
  [
    'node:test',
    'node-test',
    {
      'package.json': '{"name":"kit","engines":{"node":">=24"},"scripts":{"test":"node --test"}}',
      'kit.js': 'exports.one = 1\n',
      'test/kit.test.js':
        "const assert = require('node:assert')\nconst { test } = require('node:test')\ntest('one', () => assert.match(process.version, /^v24/))\n",
    },
    'test/kit.test.js',
  ],
  [
    'cargo',
    'cargo',
    {
      'Cargo.toml': '[package]\nname = "kit"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nitoa = "=1.0.11"\n',
      'src/lib.rs': 'pub fn one() -> String { itoa::Buffer::new().format(1).to_string() }\n',
      'tests/one.rs': '#[test]\nfn one() { assert_eq!(kit::one(), "1"); }\n',
    },
    'tests/one.rs',
  ],
  [
    'maven',
    'maven',
    {
      'pom.xml': POM,
      'src/main/java/org/example/Kit.java':
        'package org.example;\npublic class Kit { public static int one() { return 1; } }\n',
      'src/test/java/org/example/KitTest.java':
        'package org.example;\nimport org.junit.jupiter.api.Test;\nimport static org.junit.jupiter.api.Assertions.assertEquals;\nclass KitTest { @Test void one() { assertEquals(1, Kit.one()); } }\n',
    },
    'src/test/java/org/example/KitTest.java',
  ],
  [
    'vitest with pnpm',
    'vitest',
    {
      'package.json':
        '{"name":"kit","type":"module","packageManager":"pnpm@9.15.0","devDependencies":{"vitest":"2.1.9"}}',
      'pnpm-workspace.yaml': 'packages: []\n',
      'kit.js': 'export const one = 1\n',
      'kit.test.js':
        "import { expect, test } from 'vitest'\nimport { one } from './kit.js'\ntest('one', () => expect(one).toBe(1))\n",
    },
    'kit.test.js',
  ],
  [
    'mocha',
    'mocha',
    {
      'package.json': '{"name":"kit","scripts":{"test":"mocha"},"devDependencies":{"mocha":"10.8.2"}}',
      'kit.js': 'exports.one = 1\n',
      'test/kit.test.js':
        "const assert = require('node:assert')\ndescribe('kit', () => { it('one', () => assert.equal(require('../kit.js').one, 1)) })\n",
    },
    'test/kit.test.js',
  ],
  [
    'ctest',
    'ctest',
    {
      'CMakeLists.txt':
        'cmake_minimum_required(VERSION 3.10)\nproject(kit CXX)\nenable_testing()\nadd_executable(kit_test tests/kit_test.cpp)\nadd_test(NAME one COMMAND kit_test)\n',
      'tests/kit_test.cpp': 'int main() { return 0; }\n',
    },
    'tests/kit_test.cpp',
  ],
  [
    'rspec',
    'rspec',
    {
      '.rspec': '',
      'lib/kit.rb': 'def one = 1\n',
      'spec/kit_spec.rb':
        "require_relative '../lib/kit'\nRSpec.describe('kit') { it('one') { expect(one).to eq 1 } }\n",
    },
    'spec/kit_spec.rb',
  ],
  [
    'phpunit',
    'phpunit',
    {
      'phpunit.xml':
        '<phpunit><testsuites><testsuite name="all"><directory>tests</directory></testsuite></testsuites></phpunit>',
      'src/Kit.php': '<?php\nfunction one() { return 1; }\n',
      'tests/KitTest.php':
        "<?php\nrequire_once __DIR__ . '/../src/Kit.php';\nfinal class KitTest extends PHPUnit\\Framework\\TestCase { public function testOne(): void { $this->assertSame(1, one()); } }\n",
    },
    'tests/KitTest.php',
  ],
  [
    'cargo workspace',
    'cargo',
    {
      'Cargo.toml': '[workspace]\nresolver = "2"\nmembers = ["kit", "part"]\ndefault-members = ["part"]\n',
      'kit/Cargo.toml':
        '[package]\nname = "kit"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nitoa = "=1.0.11"\npart = { path = "../part" }\n',
      'kit/src/lib.rs': 'pub fn one() -> String { itoa::Buffer::new().format(part::one()).to_string() }\n',
      'kit/tests/one.rs': '#[test]\nfn one() { assert_eq!(kit::one(), "1"); }\n',
      'part/Cargo.toml': '[package]\nname = "part"\nversion = "0.1.0"\nedition = "2021"\n',
      'part/src/lib.rs': 'pub fn one() -> u8 { 1 }\n',
    },
    'kit/tests/one.rs',
  ],
  [
    'go workspace',
    'go',
    {
      'go.work': 'go 1.21\n\nuse (\n\t./kit\n\t./part\n)\n',
      'kit/go.mod': 'module example.org/kit\n\ngo 1.21\n',
      'kit/kit_test.go':
        'package kit\n\nimport (\n\t"testing"\n\n\t"example.org/part"\n)\n\nfunc TestOne(t *testing.T) {\n\tif part.One() != 1 {\n\t\tt.Fatal("no")\n\t}\n}\n',
      'part/go.mod': 'module example.org/part\n\ngo 1.21\n',
      'part/part.go': 'package part\n\nfunc One() int { return 1 }\n',
    },
    'kit/kit_test.go',
  ],
  [
    'bun workspace',
    'node-test',
    {
      'package.json':
        '{"name":"kit","packageManager":"bun@1.3.1","workspaces":["packages/*"],"scripts":{"test":"node --test"},"dependencies":{"ms":"2.1.3","part":"workspace:*"}}',
      'bun.lock':
        '{"lockfileVersion":1,"workspaces":{"":{"name":"kit","dependencies":{"ms":"2.1.3","part":"workspace:*"}},"packages/part":{"name":"part","version":"1.0.0"}},"packages":{"ms":["ms@2.1.3","",{},"sha512-6FlzubTLZG3J2a/NVCAleEhjzq5oxgHyaCU9yYXvcLsvoVaHJq/s5xXI6/XXP6tz7R9xAOtHnSO/tXtF3WRTlA=="],"part":["part@workspace:packages/part"]}}\n',
      'packages/part/package.json': '{"name":"part","version":"1.0.0","main":"part.js"}',
      'packages/part/part.js': "exports.day = '1d'\n",
      'test/kit.test.js':
        "const assert = require('node:assert')\nconst { test } = require('node:test')\ntest('one', () => assert.equal(require('ms')(require('part').day), 86400000))\n",
    },
    'test/kit.test.js',
  ],
]

describe.runIf(process.env.ASSAY_TEST_LONG === '1')('every ecosystem', () => {
  let builder: Builder
  beforeAll(async () => {
    builder = await openBuilder('local', ['trixie', 'bookworm'])
  })
  afterAll(() => builder[Symbol.asyncDispose]())

  test.each(REPOSITORIES)(
    '%s: built with a network, clean, and its tests pass without one',
    async (_, id, files, testFile) => {
      const signal = new AbortController().signal
      const made = await preparePullRequest(builder, files, { [testFile]: `${files[testFile]}\n` })
      expect(made.recipe.runner).toBe(id)
      const image = doneOf(made.image)
      expect(await scan(builder, made)).toEqual({ kind: 'done', value: null })
      const order = { image, runner: id, prepare: findRunner(id)?.prepare ?? [], folder: builder.folder }
      const health = await checkHealth(
        builder.provider,
        { ...order, rules: { testsMin: 1, passedShareMin: 1, agreedShareMin: 1 } },
        signal,
      )
      expect(health).toMatchObject({ kind: 'done', value: { tests: 1, passed: 1 } })
    },
  )
})
