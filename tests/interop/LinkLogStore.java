import io.delta.storage.HDFSLogStore;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Commits on a local disk by link(2), as polylake does.
 *
 * <p>What the connector does by itself, to look whether the version is there and then to rename, is
 * atomic within one JVM only: it replaces a version that another process commits in between.
 */
public class LinkLogStore extends HDFSLogStore {
  public LinkLogStore(Configuration configuration) {
    super(configuration);
  }

  @Override
  public void write(
      Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
      throws IOException {
    if (overwrite) {
      super.write(path, actions, true, configuration);
      return;
    }
    List<String> lines = new ArrayList<>();
    actions.forEachRemaining(lines::add);
    java.nio.file.Path target = java.nio.file.Path.of(path.toUri().getPath());
    java.nio.file.Path staged = target.resolveSibling("." + UUID.randomUUID() + ".tmp");
    Files.write(staged, lines);
    try {
      Files.createLink(target, staged);
    } catch (FileAlreadyExistsException exists) {
      throw new java.nio.file.FileAlreadyExistsException(path.toString());
    } finally {
      Files.delete(staged);
    }
  }
}
