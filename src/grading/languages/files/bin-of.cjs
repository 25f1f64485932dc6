// Prints the path of a package's program, resolved from the working directory. With a version and options, prints the options
// if the package has at least that version, and otherwise an empty line.
const { createRequire } = require('node:module')
const { dirname, join } = require('node:path')

const [name, minimum, options] = process.argv.slice(2)
const file = createRequire(join(process.cwd(), 'package.json')).resolve(`${name}/package.json`)
const { bin, version } = require(file)

const isNewEnough = () => {
  const [major, minor] = version.split('.').map(Number)
  const [minimumMajor, minimumMinor] = minimum.split('.').map(Number)
  return major > minimumMajor || (major === minimumMajor && minor >= minimumMinor)
}

if (minimum === undefined) console.log(join(dirname(file), typeof bin === 'string' ? bin : bin[name]))
else console.log(isNewEnough() ? options : '')
