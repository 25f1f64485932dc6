import { expect, test } from 'vitest'
import { readDockerfile } from '../../harbor/dockerfile.ts'
import { listBaseNames } from '../kernel/dockerfile.ts'
import { toRegistryName } from './buildah.ts'

test('finds the base images of a Dockerfile through its variables and stages', () => {
  const text = `ARG TAG=1\nFROM a:\${TAG} AS one\nFROM one AS two\nFROM scratch\nFROM b/$TAG:\${NONE:-x}\nFROM a:1\n`
  expect(listBaseNames(readDockerfile(text))).toEqual(['a:1', 'b/1:x'])
})

test('treats a stage name as an image before its FROM, and expands nested variables', () => {
  const text = 'ARG TAG=1\nARG BASE=b:$TAG\nFROM late AS one\nFROM ONE\nFROM $BASE AS late\nFROM late\n'
  expect(listBaseNames(readDockerfile(text))).toEqual(['late', 'b:1'])
})

test.each([
  ['debian', 'docker.io/library/debian:latest'],
  ['docker.io/library/debian:12', 'docker.io/library/debian:12'],
  ['lab/tool:1', 'docker.io/lab/tool:1'],
  ['ghcr.io/lab/tool:1', 'ghcr.io/lab/tool:1'],
  ['localhost:5000/tool', 'localhost:5000/tool:latest'],
])('%s is looked up as %s', (name, full) => {
  expect(toRegistryName(name)).toBe(full)
})
