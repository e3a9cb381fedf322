// The `tar` of npm as a command: node npm_tar.mjs {create|extract} ARCHIVE FOLDER
import { create, extract } from 'tar';

const [action, file, cwd] = process.argv.slice(2);
if (action === 'create') {
  await create({ file, cwd, gzip: true, strict: true }, ['.']);
} else {
  await extract({ file, cwd, strict: true });
}
