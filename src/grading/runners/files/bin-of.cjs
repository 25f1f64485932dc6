// The path of a package's program, as the working folder finds it. With a version and words: the words, if it is as new.
const { createRequire } = require('node:module')
const { dirname, join } = require('node:path')

const [name, since, words] = process.argv.slice(2)
const file = createRequire(join(process.cwd(), 'package.json')).resolve(`${name}/package.json`)
const { bin, version } = require(file)

const isSince = () => {
  const [major, minor] = version.split('.').map(Number)
  const [sinceMajor, sinceMinor] = since.split('.').map(Number)
  return major > sinceMajor || (major === sinceMajor && minor >= sinceMinor)
}

if (since === undefined) console.log(join(dirname(file), typeof bin === 'string' ? bin : bin[name]))
else console.log(isSince() ? words : '')
