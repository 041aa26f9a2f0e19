// The README in the package: its links to pages of the repository become links to docs.rs, which shows these pages with
// the Rust packages. `readme.mjs packed` writes it before `npm pack`, and `readme.mjs restored` puts the repository's
// own back.

import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const readme = join(here, 'README.md');
const kept = join(here, '.test', 'README.md');
// Paths of the repository, and where docs.rs has them.
const PACKED = [
  [/^\.\.\/\.\.\/README\.md/, 'mongo-lease/latest'],
  [/^\.\.\/\.\.\/docs\//, 'mongo-lease/latest/source/docs/'],
];

/** A page with links that work outside of the repository. A link to what no package has becomes its text. */
function relinked(page, isPacked) {
  return page.replace(/\[([^\]]*)\]\(([^)]*)\)/g, (link, text, target) => {
    if (/^(#|https:)/.test(target) || isPacked(target)) return link;
    const packed = PACKED.find(([path]) => path.test(target));
    return packed ? `[${text}](https://docs.rs/crate/${target.replace(...packed)})` : text;
  });
}

function packed(page) {
  const { files } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'));
  return relinked(page, (target) => files.includes(target.split('/')[0]));
}

function pack() {
  const now = readFileSync(readme, 'utf8');
  // An interrupted pack has left its page here, and the repository's is kept.
  const isLeft = existsSync(kept) && now === packed(readFileSync(kept, 'utf8'));
  if (isLeft) restore();
  const page = readFileSync(readme, 'utf8');
  mkdirSync(dirname(kept), { recursive: true });
  writeFileSync(kept, page);
  writeFileSync(readme, packed(page));
}

function restore() {
  renameSync(kept, readme);
}

if (process.argv[2] === 'packed') pack();
if (process.argv[2] === 'restored') restore();
