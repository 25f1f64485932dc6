import type { SafetyRule } from './rule.ts'
import { composeFileRules } from './rules/compose-files.ts'
import { composePrivilegeRules } from './rules/compose-privileges.ts'
import { credentialRules } from './rules/credentials.ts'
import { dangerRules } from './rules/dangers.ts'
import { dockerfileRules } from './rules/dockerfile.ts'
import { formRules } from './rules/form.ts'
import { imageRules } from './rules/image.ts'
import { instructionRules } from './rules/instruction.ts'
import { limitRules } from './rules/limits.ts'
import { registryRules } from './rules/registries.ts'
import { variableRules } from './rules/variables.ts'

/** Version of the rule set, stored with each result. Increment it whenever a rule is added, removed or changed. */
export const RULES_VERSION = '5'

export const RULES: readonly SafetyRule[] = [
  ...formRules,
  ...composePrivilegeRules,
  ...composeFileRules,
  ...variableRules,
  ...dockerfileRules,
  ...registryRules,
  ...imageRules,
  ...limitRules,
  ...credentialRules,
  ...dangerRules,
  ...instructionRules,
]
