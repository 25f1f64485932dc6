import { equippedRootfs } from '../base-image.ts'
import { openSuiteRunner, type SuiteRunner } from '../grading/suite-runner.ts'

/** Debian 13 with Python and git only. */
export const pythonRootfs = (): Promise<string> =>
  equippedRootfs(
    'python',
    'apt-get update && apt-get install --yes --no-install-recommends git python3 ca-certificates',
  )

export const openPythonBench = async (): Promise<SuiteRunner> => openSuiteRunner('runc', await pythonRootfs())
