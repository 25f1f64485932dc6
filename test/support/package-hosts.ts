import { lookup } from 'node:dns/promises'
import { globSync, readFileSync } from 'node:fs'
import { isPublicAddress } from '../../src/platform/outbound/url-rules.ts'
import { parseAllowedHost } from '../../src/sandboxes/egress/rules.ts'

/** Package servers of this machine from the settings of apt. */
const sources = globSync(['/etc/apt/sources.list', '/etc/apt/sources.list.d/*']).map((path) =>
  readFileSync(path, 'utf8'),
)
const hosts = new Set(sources.join('\n').match(/(?<=https?:\/\/)[\w.-]+/g) ?? [])

const addresses = await Promise.all(
  [...hosts].map((host) =>
    lookup(host, { all: true }).then(
      (found) => found.map(({ address }) => address),
      () => [],
    ),
  ),
)

/** Hosts that builds may reach, as ASSAY_BUILD_HOSTS lists them. CI machines often use package mirrors at private addresses. */
export const PACKAGE_RANGES = [...new Set(addresses.flat())]
  .filter((address) => !isPublicAddress(address))
  .map((address) => `${address}/${address.includes(':') ? 128 : 32}`)

export const PACKAGE_HOSTS = PACKAGE_RANGES.flatMap((range) => parseAllowedHost(range) ?? [])
