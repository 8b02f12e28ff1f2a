// An action on many ids, asked for slice by slice: it shows how far it is, and it can be stopped.
import { post } from "./api.js";
import { count } from "../ui/format.js";
import { t } from "./text.js";

/**
 * Asks until nothing is left or stopped() is true. of: about how many there are. Returns {done, stopped}: how many ids were changed, and whether
 * some may be left. What fails is raised with soFar, the number that was done before.
 */
export async function inSlices(path, of, { progress, stopped }) {
  let [done, cursor] = [0, null];
  do {
    const answer = await post(path, { slice: true, cursor }).catch((error) => {
      throw Object.assign(error, { soFar: done + (error.done ?? 0) });
    });
    done += answer.count;
    cursor = answer.more ? answer.cursor : null;
    progress(t("slices.progress", { n: count(done), of: count(Math.max(of, done)) }));
  } while (cursor !== null && !stopped());
  return { done, stopped: cursor !== null };
}

/** What is told of an action in slices; text: of what it did. */
export const toldOf = ({ stopped }, text) => (stopped ? t("slices.stopped", { text }) : text);
