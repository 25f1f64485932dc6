import { equippedRootfs } from '../base-image.ts'

export const TOOLS_IMAGE = 'assay-tests/tools:1'

const INSTALL = `apt-get update
apt-get install -y --no-install-recommends git make python3 python3-pytest`

/** A Debian with the programs that test scripts usually call. */
export const toolsRootfs = (): Promise<string> => equippedRootfs('tools', INSTALL, 'bookworm')
