/** What an agent may do as root in its sandbox: enough for a package manager, nothing beyond its own files. */
export const CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID']

export const HOSTNAME = 'sandbox'
