import { join } from 'node:path'
import { readKeyFile } from './key-file.ts'
import { parseKeys } from './key-text.ts'
import type { MasterKey } from './seal.ts'

/** Where the master keys are kept: in the operator's variable, or in the key file of the data folder. */
export type KeySource = { kind: 'variable'; keys: MasterKey[] } | { kind: 'file'; path: string }

export type KeyPlace = { dataFolder: string; secretKey?: string | undefined }

const VARIABLE = 'ASSAY_SECRET_KEY'

export const keySource = ({ dataFolder, secretKey }: KeyPlace): KeySource =>
  secretKey === undefined
    ? { kind: 'file', path: join(dataFolder, 'secret.key') }
    : { kind: 'variable', keys: parseKeys(secretKey.split(','), VARIABLE) }

/** The first is the one that should seal. None when there is no key file yet. */
export const readKeys = async (source: KeySource): Promise<MasterKey[]> =>
  source.kind === 'variable' ? source.keys : ((await readKeyFile(source.path)) ?? [])

export const nameOf = (source: KeySource): string => (source.kind === 'variable' ? VARIABLE : source.path)
