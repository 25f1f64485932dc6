import { afterAll, beforeAll, describe, test } from 'vitest'
import { openCaseContext } from './case-context.ts'
import type { ConformanceCase } from './conformance-case.ts'
import { execCases } from './exec-cases.ts'
import { fileCases } from './file-cases.ts'
import { firstProcessCases } from './first-process-cases.ts'
import { groupCases } from './group-cases.ts'
import { insertCases } from './insert-cases.ts'
import { isolationCases } from './isolation-cases.ts'
import { limitCases } from './limit-cases.ts'
import { networkCases } from './network-cases.ts'
import { processCases } from './process-cases.ts'
import type { ProviderUnderTest } from './provider-under-test.ts'
import { seedCases } from './seed-cases.ts'
import { unsafeFileCases } from './unsafe-file-cases.ts'

const CASES: ConformanceCase[] = [
  ...processCases,
  ...limitCases,
  ...isolationCases,
  ...networkCases,
  ...fileCases,
  ...seedCases,
  ...insertCases,
  ...execCases,
  ...groupCases,
  ...firstProcessCases,
  ...unsafeFileCases,
]

const CASE_MS = 60_000
/** Timeout of the setup, which may have to build or import an image. */
const OPEN_MS = 600_000

/** Registers the conformance tests of a provider. With `share` n, only every n-th case runs. */
export function conformance(name: string, open: () => Promise<ProviderUnderTest>, { share = 1 } = {}): void {
  describe(`${name} conforms`, () => {
    let subject: ProviderUnderTest

    beforeAll(async () => {
      subject = await open()
    }, OPEN_MS)

    afterAll(async () => {
      await subject?.[Symbol.asyncDispose]()
    }, CASE_MS)

    for (const { name: caseName, run } of CASES.filter((_, index) => index % share === 0)) {
      test(caseName, { timeout: CASE_MS }, async ({ skip }) => {
        const reason = subject.unable[caseName]
        if (reason !== undefined) skip(reason)
        await using context = await openCaseContext(subject)
        await run(context)
      })
    }
  })
}
