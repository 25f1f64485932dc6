/** What an agent may do as root in its sandbox: enough for a package manager, nothing beyond its own files. */
export const CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID']

/** Kept by the first process of a sandbox alone, so that the kernel lets nobody in the sandbox trace it. */
export const FIRST_PROCESS_CAPABILITY = 'SETPCAP'

/** The bounding set of everything but the first process, in the words of setpriv. */
export const boundingSet = (capabilities: string[]): string =>
  ['-all', ...capabilities.map((name) => `+${name.toLowerCase()}`)].join(',')

export const HOSTNAME = 'sandbox'
