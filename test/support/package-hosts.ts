import { readPlace } from '../../src/sandboxes/egress/rules.ts'

/** Where packages come from. Machines that test often have mirrors of these, at addresses that are not public. */
const NAMES = [
  ...['deb.debian.org', 'security.debian.org', 'pypi.org', 'files.pythonhosted.org', 'registry.npmjs.org'],
  ...['registry.yarnpkg.com', 'nodejs.org', 'proxy.golang.org', 'sum.golang.org', 'index.crates.io', 'crates.io'],
  ...['static.crates.io', 'rubygems.org', 'index.rubygems.org', 'repo.packagist.org', 'repo.maven.apache.org'],
  ...['repo1.maven.org', 'plugins.gradle.org', 'services.gradle.org', 'github.com', 'codeload.github.com'],
]

export const PACKAGE_HOSTS = NAMES.flatMap((name) => readPlace(name) ?? [])
