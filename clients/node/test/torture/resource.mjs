// A worker's connection to the fenced resource: one write at a time, and no answer when it cannot be reached.

import { connect } from 'node:net';

const PATIENCE_MS = 2000;

export class Resource {
  #address;
  #socket;
  #last = Promise.resolve();

  constructor(address) {
    const [host, port] = address.split(':');
    this.#address = { host, port: Number(port) };
  }

  /** Whether the write was accepted; `null` without an answer. */
  write(call, name, token, isExclusive) {
    const fields = `"call":"${call}","name":"${name}","token":${token},"is_exclusive":${isExclusive}`;
    const writing = this.#last.then(() => this.#ask(`{${fields}}\n`));
    this.#last = writing;
    return writing;
  }

  #ask(line) {
    return new Promise((resolve) => {
      const socket = (this.#socket ??= connect({ ...this.#address, noDelay: true }));
      let text = '';
      const end = (accepted) => {
        clearTimeout(timer);
        socket.removeAllListeners();
        if (accepted === null) {
          socket.on('error', () => {});
          socket.destroy();
          this.#socket = undefined;
        }
        resolve(accepted);
      };
      const timer = setTimeout(() => end(null), PATIENCE_MS);
      socket.on('error', () => end(null));
      socket.on('close', () => end(null));
      socket.on('data', (data) => {
        text += data;
        if (text.endsWith('\n')) end(text.trim() === 'true');
      });
      socket.write(line);
    });
  }

  close() {
    this.#socket?.destroy();
  }
}
