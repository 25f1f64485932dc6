import { cargo } from './cargo.ts'
import { ctest } from './ctest.ts'
import { go } from './go.ts'
import { gradle } from './gradle.ts'
import { jest } from './jest.ts'
import { maven } from './maven.ts'
import { mocha } from './mocha.ts'
import { nodeTest } from './node-test.ts'
import { phpunit } from './phpunit.ts'
import { pytest } from './pytest.ts'
import { rspec } from './rspec.ts'
import type { Runner } from './runner.ts'
import { unittest } from './unittest.ts'
import { vitest } from './vitest.ts'

/** In the order in which they are asked whether a tree is theirs: who is named comes before who takes what is left. */
export const runners: readonly Runner[] = [
  ...[pytest, vitest, jest, mocha, nodeTest],
  ...[cargo, go, maven, gradle, rspec, phpunit, ctest],
  unittest,
]

export const findRunner = (id: string): Runner | undefined => runners.find((runner) => runner.id === id)
