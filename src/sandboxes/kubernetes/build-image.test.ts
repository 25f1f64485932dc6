import { expect, test } from 'vitest'
import { findBuildProblem } from './build-image.ts'

const able = { builds: true, isRoot: true, isInstalled: true }

test.each([
  [{ builds: false }, /not in the registry, and registry\.builds: false/],
  [{ isRoot: false }, /needs root: run the worker as root, or set registry\.builds: false/],
  [{ isInstalled: false }, /needs buildah: install it on the worker \(assay setup --yes buildah\)/],
])('a worker with %j cannot build, and the message names the fix', (lacking, message) => {
  expect(findBuildProblem({ ...able, ...lacking })).toMatch(message)
  expect(findBuildProblem(able)).toBeUndefined()
})
