import type { Image, Provider } from '../sandbox.ts'

/** What a provider's test file brings. */
export type Subject = AsyncDisposable & {
  provider: Provider
  /** Debian's minbase (`baseRootfs` of test/support/base-image.ts) as this provider knows it: user root, workdir /. */
  image: Image
  /** Another of the same files, with /mine/of-the-image too. */
  otherImage: Image
  /** One that cannot be started. */
  brokenImage: Image
  /** What a sandbox with this id has on the machine: mounts, cgroups, containers, folders. Nothing after `remove`. */
  leftovers(id: string): Promise<string[]>
  /** The cases that it cannot pass on this machine, by name, each with the reason. */
  unable: Record<string, string>
}
