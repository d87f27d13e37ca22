package pando.spark

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.nio.channels.Channels

import org.apache.arrow.memory.{BufferAllocator, RootAllocator}
import org.apache.arrow.vector.{VectorLoader, VectorSchemaRoot, VectorUnloader}
import org.apache.arrow.vector.compression.CompressionUtil.CodecType
import org.apache.arrow.vector.ipc.{ArrowStreamReader, ArrowStreamWriter}
import org.apache.arrow.vector.ipc.message.IpcOption
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.arrow.BlockWriters
import org.apache.spark.sql.types.StructType

/** The rows of one INSERT as an Arrow stream: the first `length` of the bytes. */
final case class EncodedBlock(bytes: Array[Byte], length: Int, rows: Int)

/** Bytes that are written, and taken without a copy. */
private final class GrowingBytes extends ByteArrayOutputStream(1 << 16) {
  def take(rows: Int): EncodedBlock = EncodedBlock(buf, count, rows)
}

/**
 * Gathers rows of a task into a block, a small Arrow batch at a time.
 *
 * A block ends at `maxRows` rows or `maxBytes` encoded bytes. One batch is in memory beside it.
 */
final class BlockBuilder(fields: StructType, compression: String, maxRows: Int, maxBytes: Long) {
  private val (batchRows, batchBytes, unknownRowBytes) = (8192, 4L << 20, 1024)
  private val batch = BlockWriters.create(fields)
  private val root = batch.root
  private var bytes = new GrowingBytes
  private var stream = BlockBuilder.open(root, bytes, compression)
  private var (rows, rowsOfBatch, bytesOfBatch) = (0, 0, 0L)

  /** Adds a row; returns whether the block is full. */
  def add(row: InternalRow): Boolean = {
    batch.write(row)
    rows += 1
    rowsOfBatch += 1
    bytesOfBatch += (row match {
      case unsafe: UnsafeRow => unsafe.getSizeInBytes
      case _ => unknownRowBytes
    })
    if (rowsOfBatch == batchRows || bytesOfBatch >= batchBytes) endBatch()
    rows == maxRows || bytes.size() >= maxBytes
  }

  /** Returns the block, if it has rows, and begins another. */
  def take(): Option[EncodedBlock] = if (rows == 0) None else {
    endBatch()
    stream.end()
    val block = bytes.take(rows)
    bytes = new GrowingBytes
    stream = BlockBuilder.open(root, bytes, compression)
    rows = 0
    Some(block)
  }

  private def endBatch(): Unit = if (rowsOfBatch > 0) {
    batch.finish()
    stream.writeBatch()
    batch.reset()
    rowsOfBatch = 0
    bytesOfBatch = 0
  }

  /** Releases the memory. */
  def close(): Unit = root.close()
}

object BlockBuilder {

  private def open(root: VectorSchemaRoot, bytes: GrowingBytes, compression: String): ArrowStreamWriter = {
    val codecs = Map("lz4" -> CodecType.LZ4_FRAME, "zstd" -> CodecType.ZSTD)
    val writer = codecs.get(compression).map { codec =>
      val channel = Channels.newChannel(bytes)
      new ArrowStreamWriter(root, null, channel, IpcOption.DEFAULT, Compression.factory, codec)
    }.getOrElse(new ArrowStreamWriter(root, null, bytes))
    writer.start()
    writer
  }

  /** Returns the rows of a block as two blocks, in their order. */
  def halve(block: EncodedBlock, compression: String): Seq[EncodedBlock] = {
    val allocator = new RootAllocator(Long.MaxValue)
    try {
      val half = block.rows / 2
      Seq((0, half), (half, block.rows)).map { case (begin, end) => copy(block, begin, end, compression, allocator) }
    } finally allocator.close()
  }

  /** Returns the rows from `begin` until `end`. */
  private def copy(
      block: EncodedBlock, begin: Int, end: Int, compression: String, allocator: BufferAllocator): EncodedBlock = {
    val input = new ByteArrayInputStream(block.bytes, 0, block.length)
    val reader = new ArrowStreamReader(input, allocator, Compression.factory)
    val target = VectorSchemaRoot.create(reader.getVectorSchemaRoot.getSchema, allocator)
    try {
      val bytes = new GrowingBytes
      val stream = open(target, bytes, compression)
      var seen = 0
      while (reader.loadNextBatch()) {
        val root = reader.getVectorSchemaRoot
        val (first, last) = (math.max(begin - seen, 0), math.min(end - seen, root.getRowCount))
        if (first < last) {
          val slice = root.slice(first, last - first)
          val batch = new VectorUnloader(slice).getRecordBatch
          try new VectorLoader(target).load(batch) finally batch.close()
          if (slice ne root) slice.close()
          stream.writeBatch()
        }
        seen += root.getRowCount
      }
      stream.end()
      bytes.take(end - begin)
    } finally {
      target.close()
      reader.close(false)
    }
  }
}
