import type { Log } from '../platform/log.ts'
import { createLocalProvider } from './local.ts'
import type { Provider } from './sandbox.ts'

export type ProviderOptions = { dataFolder: string; allowHostBase: boolean; log: Log }

const PROVIDERS: Record<string, (options: ProviderOptions) => Provider> = {
  local: (options) => createLocalProvider({ ...options, runtime: 'auto' }),
  'local-bwrap': (options) => createLocalProvider({ ...options, runtime: 'bwrap' }),
  'local-runc': (options) => createLocalProvider({ ...options, runtime: 'runc' }),
}

export const providerNames: string[] = Object.keys(PROVIDERS)

export const findProvider = (name: string, options: ProviderOptions): Provider | undefined => PROVIDERS[name]?.(options)
