import { composeCases } from '../../test/support/trials/compose-cases.ts'
import { inSandboxes } from '../../test/support/trials/in-sandboxes.ts'

inSandboxes(composeCases)
