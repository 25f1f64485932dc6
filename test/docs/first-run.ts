import { page } from './pages.ts'

/** Commands of README.md that the first trial of your own model needs. The demo and other examples are not among them. */
const NEEDED = /^npm ci$|^npm run setup |--base-url /

/** Returns the commands of README.md from a fresh clone to the first trial of your own model. */
export function listFirstRunCommands(): string[] {
  const blocks = [...page('README.md').text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text)
  const last = blocks.findIndex((text) => text.includes('--base-url '))
  const commands = blocks.slice(0, last + 1).flatMap((text) => text.trim().split(/ && |\n/))
  return commands.filter((command) => NEEDED.test(command))
}
