/** Capabilities of root in a sandbox: enough for a package manager, and nothing beyond the sandbox's own files. */
export const CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID']

/**
 * Capability that only the first process of a sandbox has, so that the kernel refuses to let other processes trace it.
 */
export const FIRST_PROCESS_CAPABILITY = 'SETPCAP'

/** Returns the bounding set of all processes except the first, as an option of setpriv. */
export const boundingSet = (capabilities: string[]): string =>
  ['-all', ...capabilities.map((name) => `+${name.toLowerCase()}`)].join(',')

export const HOSTNAME = 'sandbox'
